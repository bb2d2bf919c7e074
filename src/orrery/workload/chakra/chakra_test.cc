#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "orrery/base/error.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/chakra/reader.h"
#include "orrery/workload/chakra/trace.h"
#include "orrery/workload/chakra/writer.h"

namespace orrery::chakra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Source source_of(const std::string& bytes) { return Source::from_memory("t.0.et", bytes); }

std::string trace_bytes(const std::vector<Node>& nodes) {
  std::string bytes = encoded(Metadata{"0.0.4", {}});
  for (const Node& n : nodes) bytes += encoded(n);
  return bytes;
}

Node comp(uint64_t id, std::vector<uint64_t> after) {
  Node n;
  n.id = id;
  n.name = "n" + std::to_string(id);
  n.type = NodeType::kComp;
  n.data_dependencies = std::move(after);
  return n;
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "no error";
}

Attribute attribute(ValueType type, bool list, std::vector<uint64_t> numbers) {
  Attribute a;
  a.name = "a";
  a.doc_string = "doc";
  a.type = type;
  a.list = list;
  a.numbers = std::move(numbers);
  return a;
}

TEST(ChakraWriter, WritesTheBytesOfTheWireFormat) {
  Node n;
  n.id = 300;
  n.type = NodeType::kCommColl;
  n.data_dependencies = {1, 300};
  n.attributes = {Attribute::of_int64("s", -1), Attribute::of_bool("b", false)};
  // id: field 1, varint 300 = ac 02; type: field 3; deps: field 5, packed; attributes:
  // field 10; int64_val is field 9 and -1 takes ten bytes; bool_val is field 27, tag d8 01,
  // written although it is false, being one of a oneof.
  const std::string message =
      "\x08\xac\x02"
      "\x18\x07"
      "\x2a\x03\x01\xac\x02"
      "\x52\x0e\x0a\x01s\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
      "\x52\x06\x0a\x01"
      "b\xd8\x01" +
      std::string(1, '\0');
  EXPECT_EQ(encoded(n), std::string(1, static_cast<char>(message.size())) + message);
}

TEST(ChakraWriter, WhatWasReadIsWrittenAgain) {
  std::vector<Attribute> attributes;
  const uint64_t minus_two = static_cast<uint64_t>(int64_t{-2});
  for (ValueType type : {ValueType::kInt32, ValueType::kInt64, ValueType::kSint32,
                         ValueType::kSint64, ValueType::kSfixed32, ValueType::kSfixed64})
    for (bool list : {false, true})
      attributes.push_back(
          attribute(type, list,
                    list ? std::vector<uint64_t>{minus_two, 7} : std::vector<uint64_t>{minus_two}));
  for (ValueType type : {ValueType::kUint32, ValueType::kUint64, ValueType::kFixed32,
                         ValueType::kFixed64, ValueType::kBool})
    for (bool list : {false, true})
      attributes.push_back(
          attribute(type, list, list ? std::vector<uint64_t>{1, 0, 1} : std::vector<uint64_t>{1}));
  for (ValueType type : {ValueType::kDouble, ValueType::kFloat})
    for (bool list : {false, true})
      attributes.push_back(attribute(
          type, list,
          list ? std::vector<uint64_t>{std::bit_cast<uint64_t>(0.25), std::bit_cast<uint64_t>(-8.0)}
               : std::vector<uint64_t>{std::bit_cast<uint64_t>(1.5)}));
  for (ValueType type : {ValueType::kString, ValueType::kBytes})
    for (bool list : {false, true}) {
      Attribute a = attribute(type, list, {});
      a.texts = list ? std::vector<std::string>{"x", "", "z"} : std::vector<std::string>{"x"};
      attributes.push_back(a);
    }
  attributes.push_back(attribute(ValueType::kNone, false, {}));
  EXPECT_EQ(attributes.size(), 31u);

  Node node = comp(std::numeric_limits<uint64_t>::max(), {3, 1});
  node.control_dependencies = {2};
  node.start_us = 5;
  node.duration_us = 6;
  node.has_inputs = node.has_outputs = true;
  node.inputs = {"[1]", "[[2]]", "['Tensor']"};
  node.attributes = attributes;
  const Metadata metadata{"0.0.4", attributes};

  const Source source = source_of(encoded(metadata) + encoded(node) + encoded(comp(0, {})));
  Reader reader(source);
  EXPECT_EQ(reader.metadata(), metadata);
  Node read;
  ASSERT_TRUE(reader.next(read));
  EXPECT_EQ(read, node);
  EXPECT_EQ(encoded(read), encoded(node));
  ASSERT_TRUE(reader.next(read));
  EXPECT_EQ(read, comp(0, {}));
  EXPECT_FALSE(reader.next(read));
}

TEST(ChakraReader, NamesTheByteWhereAFileBreaksOff) {
  const std::string bytes = trace_bytes({comp(1, {})});
  // Metadata: a length, a tag, a length and "0.0.4": 8 bytes.
  const std::string cut = bytes.substr(0, bytes.size() - 1);
  EXPECT_THAT(message_of([&] { Trace t(source_of(cut)); }),
              HasSubstr("t.0.et: byte 8: a message of"));
  EXPECT_THAT(message_of([&] { Trace t(source_of("")); }), HasSubstr("not a Chakra"));
  EXPECT_THAT(message_of([&] { Trace t(source_of("\xff\xff\xff\xff\xff\xff")); }),
              HasSubstr("byte 0: the length of a message takes more than 5 bytes"));
}

TEST(ChakraTrace, SortsNodesAndJoinsBothKindsOfDependencies) {
  Node last = comp(9, {2, 2});
  last.control_dependencies = {2, 5};
  const Trace t(source_of(trace_bytes({last, comp(5, {}), comp(2, {5})})));
  ASSERT_EQ(t.nodes().size(), 3u);
  EXPECT_EQ(t.nodes()[0].id, 2u);
  EXPECT_EQ(t.nodes()[2].id, 9u);
  EXPECT_EQ(t.dependencies(2), 2u);
  EXPECT_THAT(t.children(1), ElementsAre(0u, 2u));
  EXPECT_EQ(t.named(2), "node 9 'n9'");
}

TEST(ChakraTrace, RefusesWhatCannotRun) {
  EXPECT_THAT(message_of([] { Trace t(source_of(trace_bytes({comp(1, {7})}))); }),
              HasSubstr("node 1 'n1' depends on node 7, which is not in the trace"));
  EXPECT_THAT(message_of([] {
                Trace t(source_of(trace_bytes({comp(1, {}), comp(1, {})})));
              }),
              HasSubstr("a second node of id 1"));
  EXPECT_THAT(
      message_of([] {
        Trace t(source_of(trace_bytes({comp(0, {3}), comp(1, {}), comp(2, {0}), comp(3, {2})})));
      }),
      HasSubstr("in a circle: 0 on 3 on 2 on 0"));
}

TEST(ChakraTrace, TakesWholeNumbersOfAnyWidth) {
  Node n = comp(0, {});
  n.type = NodeType::kCommColl;
  n.attributes = {attribute(ValueType::kUint32, false, {7}),
                  attribute(ValueType::kSfixed64, false, {4096})};
  n.attributes[0].name = "comm_type";
  n.attributes[1].name = "comm_size";
  Attribute dims = attribute(ValueType::kBool, true, {1, 0, 1});
  dims.name = "involved_dim";
  n.attributes.push_back(dims);
  n.attributes.push_back(Attribute::of_string("pg_name", "12"));
  const Trace t(source_of(trace_bytes({n})));
  EXPECT_EQ(t.nodes()[0].collective, Collective::kReduceScatter);
  EXPECT_EQ(t.nodes()[0].comm_bytes, 4096u);
  EXPECT_EQ(t.nodes()[0].dimensions, 5u);
  EXPECT_EQ(t.nodes()[0].dimension_count, 3);
  EXPECT_THAT(t.groups(), ElementsAre("", "12"));
  n.attributes[1].numbers[0] = static_cast<uint64_t>(int64_t{-1});
  EXPECT_THAT(message_of([&] { Trace bad(source_of(trace_bytes({n}))); }),
              HasSubstr("comm_size is not from 0 to"));
}

TEST(ChakraWriter, WritesSharedTracesByteForByte) {
  for (const char* file :
       {"chakra/et/resnet50_dlrm_8npu/DLRM_HybridParallel.3.et", "chakra/pytorch/chakra.0.et"}) {
    ORRERY_SHARED_DATA_OR_SKIP(path, file);
    const Source source = Source::from_file(path);
    Reader reader(source);
    std::string again = encoded(reader.metadata());
    for (Node node; reader.next(node);) again += encoded(node);
    EXPECT_TRUE(again == source.text()) << file;
  }
}

}  // namespace
}  // namespace orrery::chakra
