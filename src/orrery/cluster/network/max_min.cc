#include "orrery/cluster/network/max_min.h"

#include <algorithm>
#include <functional>

namespace orrery::fabric {

MaxMinShares::MaxMinShares(const FlowSystem& system)
    : s_(system),
      running_(system.capacity.size()),
      place_(system.link.size()),
      owner_(system.link.size()),
      rate_(system.bytes.size()),
      left_(system.capacity.size()),
      open_(system.capacity.size()),
      touched_(system.capacity.size()),
      fixed_(system.bytes.size()),
      met_(system.bytes.size()) {
  for (int i = 0; i < s_.size(); ++i)
    for (int e = s_.first_link[static_cast<size_t>(i)];
         e < s_.first_link[static_cast<size_t>(i) + 1]; ++e)
      owner_[static_cast<size_t>(e)] = i;
}

void MaxMinShares::touch(int link) {
  if (touched_[static_cast<size_t>(link)] != 0) return;
  touched_[static_cast<size_t>(link)] = 1;
  links_.push_back(link);
}

void MaxMinShares::start(int flow) {
  for (int e = s_.first_link[static_cast<size_t>(flow)];
       e < s_.first_link[static_cast<size_t>(flow) + 1]; ++e) {
    const int l = s_.link[static_cast<size_t>(e)];
    std::vector<int>& list = running_[static_cast<size_t>(l)];
    place_[static_cast<size_t>(e)] = static_cast<int>(list.size());
    list.push_back(e);
    touch(l);
  }
}

void MaxMinShares::stop(int flow) {
  for (int e = s_.first_link[static_cast<size_t>(flow)];
       e < s_.first_link[static_cast<size_t>(flow) + 1]; ++e) {
    const int l = s_.link[static_cast<size_t>(e)];
    std::vector<int>& list = running_[static_cast<size_t>(l)];
    const int place = place_[static_cast<size_t>(e)];
    list[static_cast<size_t>(place)] = list.back();
    place_[static_cast<size_t>(list.back())] = place;
    list.pop_back();
    touch(l);
  }
  rate_[static_cast<size_t>(flow)] = 0;
}

void MaxMinShares::collect() {
  flows_.clear();
  size_t next = 0;
  while (next < links_.size())
    for (const int e : running_[static_cast<size_t>(links_[next++])]) {
      const int flow = owner_[static_cast<size_t>(e)];
      if (met_[static_cast<size_t>(flow)] != 0) continue;
      met_[static_cast<size_t>(flow)] = 1;
      flows_.push_back(flow);
      for (const int l : s_.links_of(flow)) touch(l);
    }
}

double MaxMinShares::share(int link) const {
  return std::max(0.0, left_[static_cast<size_t>(link)]) / open_[static_cast<size_t>(link)];
}

void MaxMinShares::fill() {
  offers_.clear();
  for (const int l : links_) {
    const auto at = static_cast<size_t>(l);
    left_[at] = s_.capacity[at];
    open_[at] = 0;
    for (const int e : running_[at]) open_[at] += s_.crossing[static_cast<size_t>(e)];
    if (open_[at] > 0) offers_.push_back({share(l), l});
  }
  std::make_heap(offers_.begin(), offers_.end(), std::greater<>());
  while (!offers_.empty()) {
    std::pop_heap(offers_.begin(), offers_.end(), std::greater<>());
    const Offer offer = offers_.back();
    offers_.pop_back();
    const auto at = static_cast<size_t>(offer.link);
    if (open_[at] <= 0) continue;
    // Fixing flows elsewhere only raises what a link offers, so a stale offer waits its turn.
    const double now = share(offer.link);
    if (now > offer.share) {
      offers_.push_back({now, offer.link});
      std::push_heap(offers_.begin(), offers_.end(), std::greater<>());
      continue;
    }
    for (const int e : running_[at]) {
      const int flow = owner_[static_cast<size_t>(e)];
      if (fixed_[static_cast<size_t>(flow)] != 0) continue;
      fixed_[static_cast<size_t>(flow)] = 1;
      rate_[static_cast<size_t>(flow)] = now;
      for (int f = s_.first_link[static_cast<size_t>(flow)];
           f < s_.first_link[static_cast<size_t>(flow) + 1]; ++f) {
        const auto other = static_cast<size_t>(s_.link[static_cast<size_t>(f)]);
        left_[other] -= now * s_.crossing[static_cast<size_t>(f)];
        open_[other] -= s_.crossing[static_cast<size_t>(f)];
      }
    }
  }
}

const std::vector<int>& MaxMinShares::update() {
  collect();
  if (flows_.size() == 1) {
    rate_[static_cast<size_t>(flows_[0])] = std::numeric_limits<double>::infinity();
    const auto flow = static_cast<size_t>(flows_[0]);
    for (auto e = static_cast<size_t>(s_.first_link[flow]);
         e < static_cast<size_t>(s_.first_link[flow + 1]); ++e)
      rate_[flow] =
          std::min(rate_[flow], s_.capacity[static_cast<size_t>(s_.link[e])] / s_.crossing[e]);
  } else if (!flows_.empty()) {
    fill();
  }
  for (const int l : links_) touched_[static_cast<size_t>(l)] = 0;
  for (const int f : flows_) met_[static_cast<size_t>(f)] = fixed_[static_cast<size_t>(f)] = 0;
  links_.clear();
  return flows_;
}

}  // namespace orrery::fabric
