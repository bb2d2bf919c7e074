#include "orrery/serving/traffic/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/base/shared_data_for_test.h"

namespace orrery {
namespace {

Trace read(const std::string& text) { return read_trace(Source::from_memory("t", text)); }

std::string fault(const std::string& text) {
  try {
    (void)read(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "";
}

TEST(Trace, ReadsVidursColumnsInOrderOfTime) {
  const Trace t = read("arrived_at,num_prefill_tokens,num_decode_tokens\n3.5,20,2\n1.0,10,1\n");
  ASSERT_EQ(t.rows.size(), 2U);
  EXPECT_TRUE(t.timed);
  EXPECT_EQ(t.rows[0].arrival.value, 0);
  EXPECT_EQ(t.rows[0].lengths.prompt, 10);
  EXPECT_EQ(t.rows[1].arrival.value, 2.5);
  EXPECT_EQ(t.rows[1].lengths.output, 2);
}

TEST(Trace, ReadsTheAzureColumns) {
  const Trace t = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 23:59:59.5000000,374,44\n2023-11-17T00:00:01.250,396,109\n");
  ASSERT_EQ(t.rows.size(), 2U);
  EXPECT_NEAR(t.rows[1].arrival.value, 1.75, 1e-6);
  EXPECT_EQ(t.rows[1].lengths.prompt, 396);
}

TEST(Trace, ReadsLengthsWithoutTimes) {
  const Trace t = read("num_prefill_tokens,num_decode_tokens,pd_ratio\n3772,54,69.8\n");
  EXPECT_FALSE(t.timed);
  EXPECT_EQ(lengths_of(t)[0].prompt, 3772);
}

TEST(Trace, ReadsJsonLines) {
  const Trace t = read(
      "{\"timestamp\": 2000, \"input_length\": 5, \"output_length\": 6, \"hash_ids\": [1]}\n\n"
      "{\"timestamp\": 500, \"input_length\": 7, \"output_length\": 8}");
  ASSERT_EQ(t.rows.size(), 2U);
  EXPECT_EQ(t.rows[0].lengths.prompt, 7);
  EXPECT_DOUBLE_EQ(t.rows[1].arrival.value, 1.5);
  EXPECT_FALSE(read("{\"prompt_len\": 5, \"output_len\": 6}").timed);
}

TEST(Trace, ReadsTimesUnderTheirUsualNames) {
  for (const char* name : {"arrived_at", "arrival_s", "arrival_time", "Arrival", "Timestamp"}) {
    SCOPED_TRACE(name);
    const Trace t = read(std::string(name) +
                         ",num_prefill_tokens,num_decode_tokens\n1.5,20,2\n"
                         "1970-01-01 00:00:04,10,1\n");
    ASSERT_TRUE(t.timed);
    EXPECT_EQ(t.rows[1].arrival.value, 2.5);
    EXPECT_TRUE(t.gaps(true).empty());
  }
  const Trace untimed = read("when,num_prefill_tokens,num_decode_tokens\n1,20,2\n");
  EXPECT_THAT(untimed.gaps(true), testing::ElementsAre(testing::HasSubstr("all come at once")));
  EXPECT_TRUE(untimed.gaps(false).empty());
}

TEST(Trace, CountsFourBytesOfTextAsAToken) {
  const Trace t = read(R"({"prompt": "12345678", "output_tokens": 5}
{"prompt": "", "completion": "123456789"})");
  ASSERT_EQ(t.rows.size(), 2U);
  EXPECT_EQ(t.rows[0].lengths.prompt, 2);
  EXPECT_EQ(t.rows[0].lengths.output, 5);
  EXPECT_EQ(t.rows[1].lengths.prompt, 1);
  EXPECT_EQ(t.rows[1].lengths.output, 3);
  EXPECT_THAT(t.gaps(false), testing::ElementsAre(testing::HasSubstr("4 bytes each")));
}

TEST(Trace, ReadsShareGptsArray) {
  const std::string talks =
      R"([{"id": "a", "conversations": [{"from": "human", "value": "a [\"}],{ b"},
                                      {"from": "gpt", "value": "12345"},
                                      {"from": "human", "value": "more"}]},
  {"id": "b", "conversations": []} ,
  {"id": "c", "conversation": [{"role": "user", "content": "1234"},
                               {"role": "assistant", "content": "1"}]}
])";
  const Trace t = read(talks);
  ASSERT_EQ(t.rows.size(), 2U);
  EXPECT_EQ(t.rows[0].lengths.prompt, 3);
  EXPECT_EQ(t.rows[0].lengths.output, 2);
  EXPECT_EQ(t.rows[1].lengths.prompt, 1);
  EXPECT_EQ(t.unanswered, 1);
  EXPECT_THAT(t.gaps(false), testing::Contains(testing::HasSubstr("1 conversations")));
  // The same one a line.
  EXPECT_EQ(read(R"({"id": "a", "conversations": [{"value": "12345"}, {"value": "1"}]})")
                .rows[0]
                .lengths.prompt,
            2);
}

TEST(Trace, SaysWhereAnArrayIsWrong) {
  const std::string one = R"({"prompt_len": 5, "output_len": 6})";
  EXPECT_THAT(fault("[]"), testing::HasSubstr("no requests"));
  EXPECT_THAT(fault("["), testing::StartsWith("t:1:2: "));
  EXPECT_THAT(fault("[" + one), testing::StartsWith("t:1:36: expected , or ]"));
  EXPECT_THAT(fault("[" + one + ",\n 5]"), testing::StartsWith("t:2:2: expected a JSON object"));
  EXPECT_THAT(fault("[" + one + "]\nx"), testing::StartsWith("t:2:1: expected nothing"));
  EXPECT_THAT(fault("[" + one + ",\n{\"prompt_len\": 5}]"), testing::StartsWith("t:2:1: "));
  EXPECT_THAT(fault(R"([{"conversations": [{"value": "a"}, {"value": 5}]}])"),
              testing::StartsWith("t:1:2: expected a turn"));
}

TEST(Trace, ReadsPriorities) {
  const Trace t = read("num_prefill_tokens,num_decode_tokens,priority\n1,2,-3\n1,2,4\n");
  EXPECT_EQ(t.rows[0].priority, -3);
  const auto source = make_replay(std::make_shared<const Trace>(t));
  EXPECT_EQ(source->take().priority, -3);
  EXPECT_EQ(source->take().priority, 4);
  EXPECT_EQ(read(R"({"prompt_len": 5, "output_len": 6, "priority": 7})").rows[0].priority, 7);
  EXPECT_THAT(fault("num_prefill_tokens,num_decode_tokens,priority\n1,2,0.5\n"),
              testing::StartsWith("t:2:5: expected a priority"));
  EXPECT_THAT(fault(R"({"prompt_len": 5, "output_len": 6, "priority": 0.7})"),
              testing::HasSubstr("not a whole number"));
}

TEST(Trace, SaysWhereItIsWrong) {
  const std::string header = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
  EXPECT_THAT(fault(header + "0,1,2\n0,x,2\n"), testing::StartsWith("t:3:3: expected a number"));
  EXPECT_THAT(fault(header + "0,1,0\n"), testing::StartsWith("t:2:5: expected a number of tokens"));
  EXPECT_THAT(fault(header + "0,1,1.5\n"), testing::StartsWith("t:2:5:"));
  EXPECT_THAT(fault(header + "0,1,1e300\n"), testing::StartsWith("t:2:5:"));
  EXPECT_THAT(fault(R"({"prompt_len": 5e94539, "output_len": 1})"),
              testing::StartsWith("t:1:1: a number that is too large"));
  EXPECT_THAT(fault(header + "-1,1,1\n"), testing::StartsWith("t:2:1: expected seconds"));
  EXPECT_THAT(fault(header + "nan,1,1\n"), testing::StartsWith("t:2:1: expected seconds"));
  EXPECT_THAT(fault("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 00:00:00,1,1\n"),
              testing::StartsWith("t:2:1: expected seconds, 0 or more, or a date"));
  EXPECT_THAT(fault(header), testing::HasSubstr("no requests"));
  EXPECT_THAT(fault("a,b\n1,2\n"), testing::StartsWith("t:1:1: a table of requests"));
  EXPECT_THAT(fault("{\"prompt_len\": 5}\n"), testing::HasSubstr("output_len"));
  EXPECT_THAT(fault("{\"prompt_len\": 5, \"output_len\": 6}\n{\"prompt_len\": }"),
              testing::StartsWith("t:2:16:"));
  EXPECT_THAT(fault("{\"prompt_len\": \"hello\", \"output_len\": 6}"),
              testing::HasSubstr("not a number"));
  EXPECT_THAT(fault("{\"prompt_len\": 5, \"output_len\": 6}\n"
                    "{\"prompt_len\": 5, \"output_len\": 6, \"arrival_s\": 1}"),
              testing::StartsWith("t:2:1: some requests"));
}

TEST(Trace, IsReplayedFasterAndAgain) {
  const auto trace = std::make_shared<const Trace>(
      read("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n1,2,1\n4,3,1\n"));
  const auto source = make_replay(trace, {2, 5});
  std::vector<double> times;
  std::vector<int> prompts;
  while (source->next_arrival() != kNever) {
    times.push_back(source->next_arrival().value);
    prompts.push_back(source->take().prompt);
  }
  // It lasts 4 s with two gaps; the next round begins a mean gap later.
  EXPECT_EQ(times, (std::vector<double>{0, 0.5, 2, 3, 3.5}));
  EXPECT_EQ(prompts, (std::vector<int>{1, 2, 3, 1, 2}));
  EXPECT_THROW(make_replay(trace, {0, 5}), Error);
  EXPECT_THROW(make_replay(std::make_shared<const Trace>(), {}), Error);
}

TEST(Trace, ReadsTheAzureConversations) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "serving/traces/splitwise_conv.csv");
  const Trace t = read_trace(Source::from_file(path));
  EXPECT_EQ(t.rows.size(), 19366U);
  double prompts = 0;
  double outputs = 0;
  for (const TraceRow& row : t.rows) {
    prompts += row.lengths.prompt;
    outputs += row.lengths.output;
  }
  // 1,155 and 211 tokens, as its authors say.
  EXPECT_NEAR(prompts / 19366, 1155, 1);
  EXPECT_NEAR(outputs / 19366, 211, 1);
}

}  // namespace
}  // namespace orrery
