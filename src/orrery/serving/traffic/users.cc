#include "orrery/serving/traffic/users.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "orrery/base/error.h"

namespace orrery {
namespace {

enum Stream : uint64_t { kLengths = 16, kPrefixes, kTurns, kPauses };

/// Users' next requests by time, then by user.
using Due = std::pair<double, uint32_t>;
using DueQueue = std::priority_queue<Due, std::vector<Due>, std::greater<>>;

class Users final : public RequestSource {
 public:
  Users(const ClosedLoop& loop, LengthSampler lengths, uint64_t seed, SharedPrefixes prefixes)
      : left_(loop.count),
        lengths_(std::move(lengths)),
        prefixes_(prefixes),
        random_(seed, kLengths),
        prefix_random_(seed, kPrefixes) {
    const int64_t users = std::min(loop.concurrency, loop.count);
    for (int64_t u = 0; u < users; ++u)
      due_.push({loop.ramp.value * static_cast<double>(u) / static_cast<double>(users),
                 static_cast<uint32_t>(u)});
  }

  Seconds next_arrival() const override {
    return left_ > 0 && !due_.empty() ? Seconds(due_.top().first) : kNever;
  }

  Request take() override {
    Request request;
    request.arrival = Seconds(due_.top().first);
    request.tag = due_.top().second;
    due_.pop();
    --left_;
    const RequestLengths lengths = lengths_.draw(random_);
    request.prompt = lengths.prompt + prefixes_.tokens;
    request.output = lengths.output;
    if (prefixes_.tokens > 0) {
      request.prefix = static_cast<uint64_t>(prefix_random_.integer(1, prefixes_.count));
      request.prefix_tokens = prefixes_.tokens;
    }
    return request;
  }

  void ended(uint32_t tag, Seconds now) override { due_.push({now.value, tag}); }

 private:
  int64_t left_;
  LengthSampler lengths_;
  SharedPrefixes prefixes_;
  RandomStream random_;
  RandomStream prefix_random_;
  DueQueue due_;
};

class Talks final : public RequestSource {
 public:
  Talks(const Conversations& conversations, LengthSampler lengths, uint64_t seed,
        SharedPrefixes prefixes)
      : options_(conversations),
        lengths_(std::move(lengths)),
        begins_(make_arrivals(conversations.begin, conversations.count, lengths_, seed, prefixes)),
        random_(seed, kLengths),
        turn_random_(seed, kTurns),
        pause_random_(seed, kPauses) {}

  Seconds next_arrival() const override {
    const Seconds begin = begins_->next_arrival();
    return due_.empty() ? begin : std::min(begin, Seconds(due_.top().first));
  }

  Request take() override {
    const Seconds begin = begins_->next_arrival();
    if (!due_.empty() && due_.top().first <= begin.value) {
      const auto [at, tag] = due_.top();
      due_.pop();
      Talk& talk = talks_[tag];
      talk.request.arrival = Seconds(at);
      return talk.request;
    }
    Talk talk;
    talk.request = begins_->take();
    talk.request.conversation = ++conversations_;
    const double end = 1 / std::max(1.0, options_.mean_turns);
    while (turn_random_.uniform() >= end) ++talk.turns_left;
    talk.request.tag = place(talk);
    talks_[talk.request.tag] = talk;
    return talk.request;
  }

  void ended(uint32_t tag, Seconds now) override {
    Talk& talk = talks_[tag];
    const RequestLengths more = lengths_.draw(random_);
    const int64_t history = int64_t{talk.request.prompt} + talk.request.output;
    if (talk.turns_left == 0 || history + more.prompt + more.output > options_.longest) {
      free_.push_back(tag);
      return;
    }
    --talk.turns_left;
    talk.request.prompt = static_cast<int32_t>(history + more.prompt);
    talk.request.output = more.output;
    due_.push({now.value + pause(), tag});
  }

 private:
  struct Talk {
    Request request;
    int32_t turns_left = 0;
  };

  uint32_t place(const Talk& talk) {
    if (free_.empty()) {
      talks_.push_back(talk);
      return static_cast<uint32_t>(talks_.size() - 1);
    }
    const uint32_t tag = free_.back();
    free_.pop_back();
    return tag;
  }

  double pause() {
    const double mean = options_.mean_pause.value;
    if (mean == 0 || options_.pause_variation == 0) return mean;
    const double shape = 1 / (options_.pause_variation * options_.pause_variation);
    return mean * pause_random_.gamma(shape) / shape;
  }

  Conversations options_;
  LengthSampler lengths_;
  std::unique_ptr<RequestSource> begins_;
  RandomStream random_;
  RandomStream turn_random_;
  RandomStream pause_random_;
  uint64_t conversations_ = 0;
  std::vector<Talk> talks_;
  std::vector<uint32_t> free_;
  DueQueue due_;
};

}  // namespace

std::unique_ptr<RequestSource> make_closed_loop(const ClosedLoop& loop, LengthSampler lengths,
                                                uint64_t seed, SharedPrefixes prefixes) {
  if (loop.concurrency < 1 || loop.concurrency > 100'000'000)
    throw_usage(fmt::format("concurrency must be 1 or more, not {}", loop.concurrency));
  if (loop.count < 1)
    throw_usage(fmt::format("number of requests must be 1 or more, not {}", loop.count));
  if (!(loop.ramp.value >= 0)) throw_usage("users cannot begin before the start");
  if (prefixes.tokens < 0 || prefixes.tokens > kLongestRequest || prefixes.count < 1)
    throw_usage("a shared prefix has 0 tokens or more, and there is 1 at least");
  return std::make_unique<Users>(loop, std::move(lengths), seed, prefixes);
}

std::unique_ptr<RequestSource> make_conversations(const Conversations& conversations,
                                                  LengthSampler lengths, uint64_t seed,
                                                  SharedPrefixes prefixes) {
  if (!(conversations.mean_turns >= 1 && conversations.mean_turns <= 1e6))
    throw_usage(fmt::format("a conversation has 1 turn or more, not {}", conversations.mean_turns));
  if (!(conversations.mean_pause.value >= 0) || !(conversations.pause_variation >= 0))
    throw_usage("a pause between turns lasts 0 s or more");
  if (conversations.longest < 1 || conversations.longest > kLongestRequest)
    throw_usage(fmt::format("longest conversation must lie between 1 and {} tokens, not {}",
                            kLongestRequest, conversations.longest));
  return std::make_unique<Talks>(conversations, std::move(lengths), seed, prefixes);
}

}  // namespace orrery
