#include "orrery/api/capacity/offered_load.h"

#include <algorithm>
#include <cmath>

#include "orrery/api/traffic.h"
#include "orrery/base/error.h"
#include "orrery/serving/traffic/trace.h"

namespace orrery {
namespace {

/// Requests of a run: enough for a 99 % quantile, no more than a second's work.
constexpr int64_t kLeastCount = 1000, kMostCount = 50000;
constexpr int64_t kTrickleCount = 120;
/// Requests of each user.
constexpr double kRounds = 10;

}  // namespace

OfferedLoad::OfferedLoad(const CapacityRequest& request)
    : unit_(request.unit()), asked_(request.asked()), traffic_(request.serving.traffic) {
  const int ways = !traffic_.requests.empty() + (traffic_.rate > 0) + (traffic_.concurrency > 0);
  if (ways > 1)
    throw_usage("say what the load is: one of --requests FILE, --rate R and --concurrency C");
  traffic_.table = read_table(traffic_);
  if (unit_ == LoadUnit::kTableSpeed) {
    rows_ = static_cast<int64_t>(traffic_.table->rows.size());
    const double length = rows_ > 0 ? traffic_.table->rows.back().arrival.value : 0;
    if (!traffic_.table->timed || length <= 0)
      throw_usage(
          "the table does not say when requests came: give its lengths by --lengths, and --rate");
    table_rate_ = static_cast<double>(rows_) / length;
  }
  TrafficRequest drawn = trickle();
  drawn.rate = 1;
  drawn.count = kLeastCount;
  const auto source = make_traffic(drawn);
  double requests = 0;
  while (source->next_arrival().value < kNever.value) {
    const Request r = source->take();
    mean_prompt_ += r.prompt;
    mean_output_ += r.output;
    requests += 1;
    source->ended(r.tag, r.arrival);
  }
  mean_prompt_ /= requests;
  mean_output_ /= requests;
  if (unit_ == LoadUnit::kConversations) turns_ = requests / static_cast<double>(kLeastCount);
}

TrafficRequest OfferedLoad::trickle() const {
  TrafficRequest traffic = traffic_;
  if (unit_ == LoadUnit::kTableSpeed) {
    traffic.lengths = traffic.requests;
    traffic.requests.clear();
    traffic.speed = 1;
  }
  traffic.concurrency = 0;
  traffic.rate = kTrickle;
  traffic.count = kTrickleCount;
  return traffic;
}

int64_t OfferedLoad::count(double load, const Effort& effort) const {
  double wanted = 0;
  if (traffic_.count > 0)
    wanted = static_cast<double>(traffic_.count);
  else if (unit_ == LoadUnit::kTableSpeed)  // again and again where it is over too soon
    wanted = std::min(std::max(load * table_rate_ * settling_.value, static_cast<double>(rows_)),
                      double{kMostCount});
  else if (unit_ == LoadUnit::kUsers)
    wanted = std::clamp(kRounds * load, double{kLeastCount}, double{kMostCount});
  else
    wanted = std::clamp(load * settling_.value, kLeastCount / turns_, kMostCount / turns_);
  double asked = wanted * effort.length;
  if (traffic_.count == 0 && (unit_ == LoadUnit::kTableSpeed || unit_ == LoadUnit::kConversations))
    asked = std::min(asked, effort.most_requests / turns_);
  return std::max<int64_t>(std::min<int64_t>(static_cast<int64_t>(wanted), kLeastCount / 4),
                           static_cast<int64_t>(asked));
}

TrafficRequest OfferedLoad::at(double load, const Effort& effort) const {
  TrafficRequest traffic = traffic_;
  traffic.count = count(load, effort);
  if (unit_ == LoadUnit::kTableSpeed)
    traffic.speed = load;
  else if (unit_ == LoadUnit::kUsers)
    traffic.concurrency = std::llround(load);
  else
    traffic.rate = load;
  return traffic;
}

int64_t OfferedLoad::requests_of(const TrafficRequest& traffic) const {
  return unit_ == LoadUnit::kConversations ? 0 : traffic.count;
}

double OfferedLoad::rate_of(const TrafficRequest& traffic) const {
  return unit_ == LoadUnit::kTableSpeed ? traffic.speed * table_rate_ : traffic.rate;
}

double OfferedLoad::equal_to(double rate, double under_way) const {
  switch (unit_) {
    case LoadUnit::kUsers:
      return std::max(1.0, under_way);
    case LoadUnit::kTableSpeed:
      return rate / table_rate_;
    case LoadUnit::kConversations:
      return rate / turns_;
    case LoadUnit::kRequests:
      break;
  }
  return rate;
}

LoadSearch OfferedLoad::search(double start, const Effort& effort) const {
  const bool whole = unit_ == LoadUnit::kUsers;
  return {start, whole ? 1 : equal_to(kTrickle, 1), effort.precision, whole};
}

void OfferedLoad::settle(const ServiceLevel& promise, Seconds longest_tpot) {
  double answer = promise.e2e.value;
  if (answer <= 0) {
    const double tpot = promise.tpot.value > 0 ? promise.tpot.value : longest_tpot.value;
    answer = promise.ttft.value + tpot * mean_output_;
  }
  settling_ = Seconds(std::max(4 * answer, 25 * promise.ttft.value));
}

}  // namespace orrery
