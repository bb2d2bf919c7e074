#include "orrery/api/traffic.h"

#include <fmt/format.h>

#include <cmath>

#include "orrery/base/error.h"
#include "orrery/base/parse_number.h"
#include "orrery/base/source.h"
#include "orrery/serving/traffic/arrivals.h"
#include "orrery/serving/traffic/trace.h"
#include "orrery/serving/traffic/users.h"
#include "orrery/serving/traffic/vidur_requests.h"

namespace orrery {
namespace {

constexpr int64_t kUsualCount = 1000;
constexpr int64_t kUsualRounds = 10;

[[noreturn]] void refuse(std::string_view what, std::string_view text) {
  throw_usage(
      fmt::format("{} '{}': give a number of tokens, uniform:LEAST-MOST, "
                  "zipf:LEAST-MOST:EXPONENT or lognormal:MEAN:VARIATION",
                  what, text));
}

std::vector<std::string_view> parts_of(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

double number(std::string_view what, std::string_view whole, std::string_view text) {
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= 0) || *value > 1e9) refuse(what, whole);
  return *value;
}

void range(std::string_view what, std::string_view whole, std::string_view text, LengthLaw& law) {
  const auto ends = parts_of(text, '-');
  if (ends.size() != 2) refuse(what, whole);
  law.least = static_cast<int64_t>(number(what, whole, ends[0]));
  law.most = static_cast<int64_t>(number(what, whole, ends[1]));
}

LengthLaw law_of(std::string_view what, std::string_view text) {
  LengthLaw law;
  const auto parts = parts_of(text, ':');
  if (parts.size() == 1) {
    law.mean = number(what, text, text);
  } else if (parts[0] == "uniform" && parts.size() == 2) {
    law.kind = LengthLaw::Kind::kUniform;
    range(what, text, parts[1], law);
  } else if (parts[0] == "zipf" && parts.size() <= 3) {
    law.kind = LengthLaw::Kind::kZipf;
    range(what, text, parts[1], law);
    if (parts.size() == 3) law.exponent = number(what, text, parts[2]);
  } else if (parts[0] == "lognormal" && parts.size() <= 3) {
    law.kind = LengthLaw::Kind::kLogNormal;
    law.mean = number(what, text, parts[1]);
    if (parts.size() == 3) law.variation = number(what, text, parts[2]);
  } else {
    refuse(what, text);
  }
  return law;
}

/// What "vidur:LEAST-MOST:RATIO" says.
VidurRequests vidur_law(const TrafficRequest& request) {
  const auto parts = parts_of(request.lengths, ':');
  LengthLaw total;
  if (parts.size() != 3)
    throw_usage(fmt::format("--lengths '{}': give vidur:LEAST-MOST:RATIO", request.lengths));
  range("--lengths", request.lengths, parts[1], total);
  return {.rate = request.rate,
          .count = request.count > 0 ? request.count : kUsualCount,
          .least = total.least,
          .most = total.most,
          .ratio = number("--lengths", request.lengths, parts[2]),
          .seed = static_cast<uint32_t>(request.seed)};
}

bool like_vidur(const TrafficRequest& request) { return request.lengths.starts_with("vidur:"); }

LengthSampler sampler(const TrafficRequest& request) {
  if (request.lengths.empty()) return {law_of("--isl", request.isl), law_of("--osl", request.osl)};
  if (like_vidur(request)) {
    const VidurRequests law = vidur_law(request);
    return LengthSampler::uniform_total(law.least, law.most, law.ratio);
  }
  return LengthSampler::empirical(lengths_of(*read_table(request)));
}

/// What would be said in vain is a mistake.
void refuse_unused(const TrafficRequest& request) {
  const TrafficRequest usual;
  const auto refuse = [](bool given, std::string_view option, std::string_view why) {
    if (given) throw_usage(fmt::format("{} has no use {}", option, why));
  };
  const bool isl = request.isl != usual.isl, osl = request.osl != usual.osl;
  const bool bursts = request.variation != usual.variation;
  if (!request.requests.empty()) {
    constexpr std::string_view kTable = "with --requests: the table says what comes when";
    refuse(isl, "--isl", kTable);
    refuse(osl, "--osl", kTable);
    refuse(!request.lengths.empty(), "--lengths", kTable);
    refuse(request.turns > 0, "--turns", kTable);
    refuse(request.prefix_tokens > 0, "--prefix-tokens", kTable);
    refuse(bursts, "--variation", kTable);
    refuse(request.swing > 0, "--swing", kTable);
  } else {
    refuse(request.speed != usual.speed, "--speed", "without --requests");
  }
  if (request.concurrency > 0) {
    constexpr std::string_view kUsers = "with --concurrency: users ask when they have an answer";
    refuse(request.turns > 0, "--turns", kUsers);
    refuse(bursts, "--variation", kUsers);
    refuse(request.swing > 0, "--swing", kUsers);
  }
  if (!request.lengths.empty()) {
    constexpr std::string_view kLengths = "with --lengths, which says how long both are";
    refuse(isl, "--isl", kLengths);
    refuse(osl, "--osl", kLengths);
  }
  refuse(request.turns == 0 && request.pause != usual.pause, "--pause", "without --turns");
  refuse(request.swing == 0 && request.period != usual.period, "--period", "without --swing");
  refuse(request.prefix_tokens == 0 && request.prefixes != usual.prefixes, "--prefixes",
         "without --prefix-tokens");
}

std::unique_ptr<RequestSource> make_requests(const TrafficRequest& request) {
  if (!(std::isfinite(request.rate) && request.rate >= 0))
    throw_usage(fmt::format("--rate {}: give a number above 0", request.rate));
  const int ways = !request.requests.empty() + (request.rate > 0) + (request.concurrency > 0);
  if (ways != 1)
    throw_usage("say when requests come: one of --requests FILE, --rate R and --concurrency C");
  refuse_unused(request);
  if (!request.requests.empty())
    return make_replay(read_table(request), {.speed = request.speed, .count = request.count});
  const SharedPrefixes prefixes = {request.prefix_tokens, request.prefixes};
  if (request.concurrency > 0) {
    const int64_t count = request.count > 0 ? request.count : kUsualRounds * request.concurrency;
    return make_closed_loop({.concurrency = request.concurrency, .count = count, .ramp = {}},
                            sampler(request), request.seed, prefixes);
  }
  if (like_vidur(request) && request.turns == 0) return make_vidur_requests(vidur_law(request));
  const ArrivalProcess process = {request.rate, request.variation, request.swing, request.period};
  const int64_t count = request.count > 0 ? request.count : kUsualCount;
  if (request.turns > 0) {
    Conversations conversations;
    conversations.begin = process;
    conversations.count = count;
    conversations.mean_turns = request.turns;
    conversations.mean_pause = request.pause;
    return make_conversations(conversations, sampler(request), request.seed, prefixes);
  }
  return make_arrivals(process, count, sampler(request), request.seed, prefixes);
}

}  // namespace

std::shared_ptr<const Trace> read_table(const TrafficRequest& request) {
  if (request.table) return request.table;
  refuse_unused(request);
  const std::string& file = request.requests.empty() ? request.lengths : request.requests;
  if (file.empty() || (request.requests.empty() && like_vidur(request))) return nullptr;
  return std::make_shared<const Trace>(read_trace(Source::from_file(file)));
}

std::unique_ptr<RequestSource> make_traffic(const TrafficRequest& request) {
  std::unique_ptr<RequestSource> source = make_requests(request);
  if (request.adapters.count == 0) return source;
  return with_adapters(std::move(source), request.adapters, request.seed);
}

}  // namespace orrery
