#include "orrery/api/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "orrery/api/session.h"
#include "orrery/base/error.h"

namespace orrery {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const Session& session() {
  static const Session kept;
  return kept;
}

ServingRequest llama(const std::string& device = "h100-sxm") {
  ServingRequest request;
  request.engine.model = "llama3-8b";
  request.engine.device = device;
  request.traffic.rate = 4;
  request.traffic.count = 60;
  request.traffic.osl = "16";
  return request;
}

std::string refusal(const ServingRequest& request) {
  try {
    session().serving(request);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Looking ahead gives what asking step by step does: of lengths below and above a window, alike and
// not, of few and of more sequences than graphs are made for.
TEST(Serving, LooksAheadAsFarAsTimesAreLines) {
  const std::string windowed = testing::TempDir() + "windowed.json";
  std::ofstream(windowed) << R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
      "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
      "num_hidden_layers": 4, "intermediate_size": 14336, "vocab_size": 32000,
      "max_position_embeddings": 32768, "hidden_act": "silu", "rms_norm_eps": 1e-5,
      "sliding_window": 1024, "torch_dtype": "bfloat16"})";
  int64_t longest = 0, windows = 0;
  bool launched = false;
  // TensorRT-LLM's host launches what no graph holds, kernel by kernel.
  for (const auto& [model, engine_name] : {std::pair<std::string, std::string>{"llama3-8b", "vllm"},
                                           {windowed, "vllm"},
                                           {"llama3-8b", "trtllm"}}) {
    ServingRequest request = llama();
    request.engine.model = model;
    request.engine.engine = engine_name;
    const ServingEngine engine = session().serving_engine(request.engine);
    const EngineTimes& times = *engine.times;
    windows += times.window();
    for (const int64_t decodes : {1, 3, 40, 700})
      for (const int64_t context : {5, 90, 1000, 7000})
        for (const double factor : {1.0, 1.2}) {
          StepShape shape;
          shape.decodes = decodes;
          shape.longest_decode = decodes == 3 ? 5 * context : context;
          shape.decode_context = (decodes - 1) * context + shape.longest_decode;
          const bool grows = times.window() > context;
          shape.windowed_context = decodes * (grows ? context : times.window());
          const int64_t growing = grows && times.window() > 0 ? decodes : 0;
          const StepLine line = ScaledTimes(times, factor).ahead(shape, growing);
          longest = std::max(longest, line.steps);
          launched = launched || line.first.launch.value > 0;
          for (int64_t i = 0; i < line.steps; ++i) {
            const StepTime asked = times.of(shape, factor);
            EXPECT_NEAR((line.first.device + line.slope * static_cast<double>(i)).value,
                        asked.device.value, 1e-12);
            EXPECT_EQ(line.first.host, asked.host);
            EXPECT_EQ(line.first.launch, asked.launch);
            shape.decode_context += decodes;
            shape.windowed_context += growing;
            ++shape.longest_decode;
          }
        }
  }
  EXPECT_EQ(windows, 1024);
  EXPECT_TRUE(launched);
  EXPECT_GT(longest, 1000);
}

// A token's keys and values are 2·32·8·128 numbers of 2 bytes, a block 16 of them: 2 MiB.
// Two ranks with the experts of both: what they send takes as long as the fuller one's, and where
// graphs run the other pads its tokens to them.
TEST(Serving, TheFullestOfDataParallelRanksSetsThePace) {
  EngineRequest request;
  request.model = "mixtral-8x7b";
  request.device = "dgx-h100";
  request.layout.attention_data = request.layout.expert = 2;
  const ServingEngine engine = session().serving_engine(request);
  const auto seconds = [&](int64_t decodes, int64_t context, int64_t group, int64_t fullest) {
    StepShape shape;
    shape.decodes = decodes;
    shape.decode_context = context;
    shape.longest_decode = context / decodes;
    shape.group_tokens = group;
    shape.fullest_rank = fullest;
    return engine.times->of(shape).device.value;
  };
  // 4,000 tokens for the experts either way, more than graphs are made for; 8 kB of each token
  // that the fuller rank has more than half of go through 450 GB/s in each of 32 layers, twice.
  const double even = seconds(1000, 1000000, 4000, 2000),
               uneven = seconds(1000, 1000000, 4000, 3000);
  EXPECT_GT(uneven - even, 0.9 * 32 * 2 * 1000 * 8192 / 450e9);
  EXPECT_LT(uneven - even, 4.0 * 32 * 2 * 1000 * 8192 / 450e9);
  // A graph of 256 tokens on both, whoever has them: the rest is attention over a few tokens.
  EXPECT_NEAR(seconds(10, 2560, 266, 256) / seconds(256, 2560, 512, 256), 1, 0.06);
}

TEST(Serving, DividesAHostsMemoryIntoBlocks) {
  ServingRequest request = llama();
  request.engine.host_memory = 64e9;
  request.engine.settings = {{"host_link", "0.5"}};
  const ServingEngine one = session().serving_engine(request.engine);
  EXPECT_EQ(one.host.blocks, 30517);
  EXPECT_EQ(one.host.block_bytes.value, 2097152);
  EXPECT_EQ(one.host.bandwidth.value, 32e9);  // half of PCIe 5.0's 64
  // Two devices carry half a block each; two ranks of whole copies have half the room each.
  request.engine.layout.tensor = 2;
  const ServingEngine split = session().serving_engine(request.engine);
  EXPECT_EQ(split.host.blocks, 30517);
  EXPECT_EQ(split.host.block_bytes.value, 1048576);
  request.engine.layout = {};
  request.engine.layout.attention_data = 2;
  EXPECT_EQ(session().serving_engine(request.engine).host.blocks, 15258);
  request.engine.layout = {};
  request.engine.host_link = BytesPerSecond(50e9);
  EXPECT_EQ(session().serving_engine(request.engine).host.bandwidth.value, 50e9);
  request.engine.host_memory = 2e6;
  EXPECT_THAT(refusal(request), HasSubstr("hold no block"));
}

// Long prompts meet the board's power limit; what takes a few milliseconds, or waits for memory,
// does not.
TEST(Serving, LongPromptsRunAtTheClockTheirPowerAllows) {
  const auto run = [](int prompt, const char* limit) {
    ServingRequest request = llama("h200");
    request.engine.overrides = {{"power.reference", "700 W"}, {"power.limit", limit}};
    request.traffic.rate = 0.1;
    request.traffic.count = 3;
    request.traffic.isl = std::to_string(prompt);
    return session().serving(request).run.metrics;
  };
  const auto held = [&](int prompt) {
    return run(prompt, "700 W").ttft.mean.value / run(prompt, "7 kW").ttft.mean.value;
  };
  EXPECT_GT(held(8192), 1.05);
  EXPECT_LT(held(8192), 1.4);
  EXPECT_LT(held(64), 1.01);
  EXPECT_NEAR(run(64, "700 W").tpot.mean.value / run(64, "7 kW").tpot.mean.value, 1, 0.01);
}

// 8 slots of the 41.9 million weights in 16 bits that rank 16 has (engine_work_test.cc).
TEST(Serving, KeepsSlotsForAdapters) {
  ServingRequest request = llama();
  const ServingEngine plain = session().serving_engine(request.engine);
  request.engine.lora_rank = 16;
  const ServingEngine engine = session().serving_engine(request.engine);
  EXPECT_EQ(engine.memory.adapters, 8 * 83886080.0);
  EXPECT_EQ(plain.memory.cache - engine.memory.cache, engine.memory.adapters);
  EXPECT_EQ(engine.adapters.bytes.value, 83886080);
  // A step with adapters is longer by their launches, and by more of them.
  StepShape shape;
  shape.decodes = 16;
  shape.decode_context = 16 * 500;
  shape.longest_decode = 500;
  const double without = engine.times->of(shape).device.value;
  EXPECT_EQ(without, plain.times->of(shape).device.value);
  shape.adapters = 1;
  const double one = engine.times->of(shape).device.value;
  shape.adapters = 16;
  const double sixteen = engine.times->of(shape).device.value;
  // 256 launches of a microsecond or more, weights of 84 MB at 3.35 TB/s each.
  EXPECT_GT(one - without, 256e-6);
  EXPECT_GT(sixteen - one, 15 * 83886080 / 3.35e12 * 0.5);
  const StepCauses causes = engine.times->detail(shape);
  EXPECT_NEAR(causes.parts[static_cast<size_t>(StepPart::kAdapters)].value, sixteen - without,
              1e-9);
}

// Conversations whose device forgets them between turns.
TEST(Serving, LoadsFromTheHostWhatItNeedNotCompute) {
  ServingRequest request = llama();
  request.engine.kv_blocks = 1500;
  request.traffic.turns = 4;
  request.traffic.isl = "3000";
  request.traffic.rate = 1;
  const ServingAnswer without = session().serving(request);
  EXPECT_EQ(without.run.host.links, 0);
  request.engine.host_memory = 200e9;
  const ServingAnswer with = session().serving(request);
  EXPECT_GT(with.run.metrics.cached_share, without.run.metrics.cached_share);
  EXPECT_LT(with.run.metrics.ttft.mean.value, without.run.metrics.ttft.mean.value);
  const HostUse& host = with.run.host;
  EXPECT_GT(host.hit_tokens, 0);
  EXPECT_DOUBLE_EQ(host.to_device.value, 131072.0 * static_cast<double>(host.hit_tokens));
  EXPECT_THAT(to_json(with, request), HasSubstr("\"hit_tokens\""));
  EXPECT_THAT(to_json(without, request), testing::Not(HasSubstr("\"host\"")));
}

TEST(Serving, AsksForMoreThanNobody) {
  ServingRequest request = llama();
  request.traffic.isl = "500000";
  EXPECT_THAT(refusal(request), AllOf(HasSubstr("none of 60 requests can be served"),
                                      HasSubstr("500000 tokens of prompt and 16 of answer"),
                                      HasSubstr("llama3-8b was made for 131072")));
  request.scheduler.max_length = 600000;
  EXPECT_THAT(refusal(request), HasSubstr("has room for 441"));
}

TEST(Serving, RejectsWhatTheModelWasNotMadeFor) {
  ServingRequest request = llama();
  request.engine.model = "gpt2";
  request.traffic.count = 10;
  request.traffic.isl = "uniform:1-1100";
  const ServingMetrics limited = session().serving(request).run.metrics;
  EXPECT_GT(limited.rejected, 0);
  EXPECT_GT(limited.requests, 0);
  request.scheduler.max_length = 2000;
  EXPECT_EQ(session().serving(request).run.metrics.rejected, 0);
}

TEST(Serving, AnAnswerOfOneTokenIsAsUncertainAsItsFirst) {
  ServingRequest request = llama();
  request.traffic.osl = "1";
  const ServingAnswer answer = session().serving(request);
  for (const ServingMetrics& m : {answer.fast, answer.slow})
    for (const auto figure : {&Distribution::mean, &Distribution::p50, &Distribution::p99})
      EXPECT_NEAR((m.e2e.*figure).value, (m.ttft.*figure).value, 1e-9);
  EXPECT_LT(answer.fast.ttft.mean.value, answer.run.metrics.ttft.mean.value);
  EXPECT_GT(answer.slow.ttft.mean.value, answer.run.metrics.ttft.mean.value);
}

TEST(Serving, SaysThatGuessesAreFree) {
  ServingRequest request = llama();
  EXPECT_THAT(session().serving(request).gaps, Not(Contains(HasSubstr("guesses"))));
  request.speculation = {.draft_tokens = 3, .acceptance = 0.5};
  EXPECT_THAT(session().serving(request).gaps, Contains(HasSubstr("guesses cost nothing")));
}

TEST(Serving, RefusesWhatTheTrafficHasNoUseFor) {
  const auto refused = [](const auto& change) {
    ServingRequest request = llama();
    request.traffic.osl = TrafficRequest().osl;
    change(request.traffic);
    return refusal(request);
  };
  const auto users = [&](const auto& change) {
    return refused([&](TrafficRequest& t) {
      t.rate = 0;
      t.concurrency = 4;
      change(t);
    });
  };
  EXPECT_THAT(users([](TrafficRequest& t) { t.turns = 3; }), HasSubstr("--turns has no use"));
  EXPECT_THAT(users([](TrafficRequest& t) { t.swing = 0.5; }), HasSubstr("--swing has no use"));
  EXPECT_THAT(users([](TrafficRequest& t) { t.variation = 2; }), HasSubstr("--variation has no"));
  EXPECT_THAT(users([](TrafficRequest& t) { t.rate = -1; }), HasSubstr("--rate -1"));
  const auto table = [&](const auto& change) {
    return refused([&](TrafficRequest& t) {
      t.rate = 0;
      t.requests = "requests.csv";
      change(t);
    });
  };
  EXPECT_THAT(table([](TrafficRequest& t) { t.isl = "5"; }), HasSubstr("--isl has no use"));
  EXPECT_THAT(table([](TrafficRequest& t) { t.turns = 3; }), HasSubstr("--turns has no use"));
  EXPECT_THAT(table([](TrafficRequest& t) { t.prefix_tokens = 3; }),
              HasSubstr("--prefix-tokens has no use"));
  EXPECT_THAT(refused([](TrafficRequest& t) { t.speed = 2; }), HasSubstr("--speed has no use"));
  EXPECT_THAT(refused([](TrafficRequest& t) { t.pause = Seconds(3); }),
              HasSubstr("--pause has no use"));
}

TEST(Serving, RefusesWhatHasNoUse) {
  ServingRequest request = llama();
  request.engine.host_link = BytesPerSecond(1e9);
  EXPECT_THAT(refusal(request), HasSubstr("--host-link has no use"));
  request = llama();
  request.engine.lora_rank = 8;
  EXPECT_THAT(refusal(request), HasSubstr("--lora-adapters"));
  request = llama();
  request.traffic.adapters.count = 8;
  EXPECT_THAT(refusal(request), HasSubstr("--lora-rank"));
  request = llama();
  request.engine.host_memory = 1e9;
  request.scheduler.name = "vllm-v0";
  EXPECT_THAT(refusal(request), HasSubstr("looks for none"));
  request.scheduler.name = "vllm-v1";
  request.scheduler.prefix_caching = false;
  EXPECT_THAT(refusal(request), HasSubstr("told not to"));
  request = llama("tpu-v5p");
  request.engine.host_memory = 1e9;
  EXPECT_THAT(refusal(request), HasSubstr("--host-link"));
}

}  // namespace
}  // namespace orrery
