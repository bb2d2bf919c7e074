#include "orrery/hardware/yaml_document.h"

#include <gtest/gtest.h>

#include <string>

namespace orrery {
namespace {

YamlNode parse(const std::string& text) { return parse_yaml(Source::from_memory("t", text)); }

/// The whole message of the error that `text` gives.
std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "no error";
}

TEST(YamlDocument, KeepsPlaces) {
  const YamlNode root = parse("a: 1\nb:\n  c: two words\n  d: [x, y]\n");
  ASSERT_EQ(root.kind, YamlNode::Kind::kMap);
  ASSERT_EQ(root.keys.size(), 2U);
  EXPECT_EQ(root.keys[1].text, "b");
  EXPECT_EQ(root.keys[1].line, 2);
  EXPECT_EQ(root.keys[1].column, 1);
  const YamlNode* b = root.find("b");
  ASSERT_NE(b, nullptr);
  const YamlNode* c = b->find("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->text, "two words");
  EXPECT_EQ(c->line, 3);
  EXPECT_EQ(c->column, 6);
  const YamlNode* d = b->find("d");
  ASSERT_NE(d, nullptr);
  EXPECT_EQ(d->kind, YamlNode::Kind::kSequence);
  ASSERT_EQ(d->values.size(), 2U);
  EXPECT_EQ(d->values[1].text, "y");
  EXPECT_EQ(b->find("e"), nullptr);
}

TEST(YamlDocument, TellsNullFromText) {
  const YamlNode root = parse("a:\nb: ~\nc: null\nd: '~'\n");
  EXPECT_EQ(root.find("a")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.find("b")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.find("c")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.find("d")->kind, YamlNode::Kind::kScalar);
}

TEST(YamlDocument, EmptyTextIsNull) {
  EXPECT_EQ(parse("").kind, YamlNode::Kind::kNull);
  EXPECT_EQ(parse("# only words\n").kind, YamlNode::Kind::kNull);
}

TEST(YamlDocument, RefusesWhatADescriptionDoesNotNeed) {
  EXPECT_EQ(error_of("a: 1\nb: 2\na: 3\n"), "t:3:1: the key 'a' stands twice, first in line 1");
  EXPECT_EQ(error_of("a: &x 1\n"), "t:1:4: anchors are not supported; write the value out");
  EXPECT_EQ(error_of("a: !!int 1\n"),
            "t:1:4: the tag 'tag:yaml.org,2002:int' is not supported; remove it");
  EXPECT_EQ(error_of("[a, b]: 1\n"), "t:1:1: a map's key must be a word");
  EXPECT_EQ(error_of("a: 1\n---\nb: 1\n"), "t:2:1: a second document; one was expected");
}

TEST(YamlDocument, PlacesSyntaxErrors) {
  EXPECT_EQ(error_of("a: [1, 2\nb: 3\n").substr(0, 4), "t:2:");
  EXPECT_EQ(error_of("a: 'open ''\n"), "t:1:4: the quote is never closed");
  EXPECT_EQ(error_of("a: \"open\\\"\n"), "t:1:4: the quote is never closed");
  EXPECT_EQ(parse("a: 'it''s'\nb: \"\\\"\"\n").find("a")->text, "it's");
  EXPECT_EQ(error_of("a: 1\n b: 2\n").substr(0, 4), "t:2:");
}

TEST(YamlDocument, RefusesCharactersThatAreNotText) {
  EXPECT_EQ(error_of(std::string("a: 1\nb\0: 2\n", 11)),
            "t:2:2: control character 0x00; a YAML text was expected");
  EXPECT_EQ(error_of("a: \x04"), "t:1:4: control character 0x04; a YAML text was expected");
  EXPECT_EQ(error_of("a: \xff\n"), "t:1:4: byte 0xff is not valid UTF-8");
  EXPECT_EQ(error_of("a: \xed\xa0\x80\n"), "t:1:4: byte 0xed is not valid UTF-8");  // surrogate
  EXPECT_EQ(error_of("a: \xc3"), "t:1:4: byte 0xc3 is not valid UTF-8");            // cut
  EXPECT_EQ(parse("a: µ€😀\n").find("a")->text, "µ€😀");
}

TEST(YamlDocument, BoundsDepthNodesAndSize) {
  EXPECT_EQ(error_of("a: " + std::string(20, '[') + std::string(20, ']')),
            "t:1:19: nested over 16 levels deep");
  EXPECT_NE(error_of(std::string(1 << 20, '[')), "no error");
  EXPECT_NE(error_of(std::string(1 << 20, '{')), "no error");
  EXPECT_NE(error_of("a: " + std::string(1 << 19, '?')), "");
  std::string blocks;
  for (int i = 0; i < 2000; ++i) blocks += "- ";
  EXPECT_EQ(error_of(blocks), "t:1:33: nested over 16 levels deep");
  std::string many = "a: [";
  for (int i = 0; i < 20'000; ++i) many += "1,";
  EXPECT_NE(error_of(many + "1]").find("more than 10000 nodes"), std::string::npos);
  EXPECT_EQ(error_of(std::string((1 << 20) + 1, ' ')),
            "t: is 1048577 bytes long; a description of hardware has at most 1048576");
}

TEST(YamlDocument, RefusesAliasBombs) {
  std::string bomb = "a: &a [x, x]\n";
  for (char c = 'b'; c <= 'z'; ++c)
    bomb += std::string(1, c) + ": &" + c + " [*" + static_cast<char>(c - 1) + ", *" +
            static_cast<char>(c - 1) + "]\n";
  EXPECT_EQ(error_of(bomb), "t:1:4: anchors are not supported; write the value out");
}

}  // namespace
}  // namespace orrery
