#include "orrery/workload/partition/sharding_text.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace orrery::partition {
namespace {

/// Reads what a sharding is written with: names in quotes, integers, marks.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  bool accept(std::string_view word) {
    skip();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool empty() {
    skip();
    return text_.empty();
  }
  std::optional<int64_t> integer() {
    skip();
    int64_t value = 0;
    const auto [end, fault] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (fault != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }
  std::optional<std::string_view> quoted() {
    if (!accept("\"")) return std::nullopt;
    const size_t end = text_.find('"');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view name = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return name;
  }
  /// "[2,4]" or "(1,0)" with the opening mark read already.
  std::optional<std::vector<int64_t>> integers(std::string_view close) {
    std::vector<int64_t> values;
    while (!accept(close)) {
      const auto value = integer();
      if (!value) return std::nullopt;
      values.push_back(*value);
      accept(",");
    }
    return values;
  }

 private:
  void skip() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n'))
      text_.remove_prefix(1);
  }
  std::string_view text_;
};

/// `"x"` or `"x":(2)4` of Shardy.
std::optional<AxisReference> axis_reference(Words& words) {
  const auto name = words.quoted();
  if (!name) return std::nullopt;
  AxisReference found{std::string(*name), 1, 0};
  if (!words.accept(":")) return found;
  if (!words.accept("(")) return std::nullopt;
  const auto pre = words.integer();
  if (!pre || !words.accept(")")) return std::nullopt;
  const auto size = words.integer();
  if (!size || *pre < 1 || *size < 1 || *pre > kMaxDevices || *size > kMaxDevices)
    return std::nullopt;
  found.pre_size = *pre;
  found.size = *size;
  return found;
}

/// `{"x", "y":(1)2, ?}`, the opening brace read already.
std::optional<WrittenDimension> axis_list(Words& words) {
  WrittenDimension list;
  while (!words.accept("}")) {
    if (words.accept("?")) {
      list.open = true;
    } else {
      const auto axis = axis_reference(words);
      if (!axis) return std::nullopt;
      list.axes.push_back(*axis);
    }
    words.accept(",");
  }
  return list;
}

/// Finds the reshape and permutation of the numbers 0, 1, 2 … that give `listed`, if there are any:
/// a step along each prime factor of the tiles must add the same to the device's number everywhere.
bool describe(const std::vector<int64_t>& listed, TileAssignment& found) {
  std::vector<int64_t> sizes;
  for (int64_t tile : found.tiles)
    for (int64_t prime = 2; tile > 1; ++prime)
      for (; tile % prime == 0; tile /= prime) sizes.push_back(prime);
  std::vector<int64_t> steps(sizes.size());
  size_t place = 1;
  for (size_t i = sizes.size(); i-- > 0; place *= static_cast<size_t>(sizes[i]))
    steps[i] = listed[place];
  for (size_t at = 0; at < listed.size(); ++at) {
    int64_t device = 0;
    auto rest = static_cast<int64_t>(at);
    for (size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) {
      if (steps[i] < 0 || steps[i] >= static_cast<int64_t>(listed.size())) return false;
      device += rest % sizes[i] * steps[i];
    }
    if (device != listed[at]) return false;
  }
  std::vector<size_t> by_step(sizes.size());
  std::iota(by_step.begin(), by_step.end(), 0);
  std::ranges::sort(by_step, [&](size_t a, size_t b) { return steps[a] > steps[b]; });
  found.permutation.resize(sizes.size());
  int64_t expected = 1;
  for (size_t i = by_step.size(); i-- > 0; expected *= sizes[by_step[i]]) {
    if (steps[by_step[i]] != expected) return false;
    found.permutation[by_step[i]] = static_cast<int64_t>(i);
  }
  for (const size_t i : by_step) found.reshape.push_back(sizes[i]);
  return true;
}

}  // namespace

std::optional<WrittenSharding> written_sharding(std::string_view text) {
  Words words(text);
  WrittenSharding found;
  if (!words.accept("[")) return std::nullopt;
  while (!words.accept("]")) {
    if (!words.accept("{")) return std::nullopt;
    auto dim = axis_list(words);
    if (!dim) return std::nullopt;
    if (words.accept("p")) {
      const auto priority = words.integer();
      if (!priority || *priority < 0 || *priority > 1000) return std::nullopt;
      dim->priority = static_cast<int>(*priority);
    }
    found.dims.push_back(std::move(*dim));
    words.accept(",");
  }
  while (words.accept(",")) {
    if (!words.accept("replicated")) return std::nullopt;
    if (!words.accept("=") || !words.accept("{")) return std::nullopt;
    auto list = axis_list(words);
    if (!list) return std::nullopt;
    found.replicated = std::move(list->axes);
  }
  if (!words.empty()) return std::nullopt;
  return found;
}

std::optional<TileAssignment> tile_assignment(std::string_view text) {
  Words words(text);
  TileAssignment found;
  if (!words.accept("{")) return std::nullopt;
  if (words.accept("replicated")) return found;
  if (words.accept("manual")) {
    found.kind = TileAssignment::Kind::kManual;
    return found;
  }
  if (!words.accept("devices=[")) return std::nullopt;
  found.kind = TileAssignment::Kind::kTiled;
  auto tiles = words.integers("]");
  if (!tiles) return std::nullopt;
  found.tiles = std::move(*tiles);
  int64_t devices = 1;
  for (const int64_t t : found.tiles)
    if (t < 1 || __builtin_mul_overflow(devices, t, &devices) || devices > kMaxDevices)
      return std::nullopt;
  if (words.accept("<=[")) {
    auto reshape = words.integers("]");
    if (!reshape) return std::nullopt;
    found.reshape = std::move(*reshape);
    if (words.accept("T(")) {
      auto permutation = words.integers(")");
      if (!permutation) return std::nullopt;
      found.permutation = std::move(*permutation);
    }
  } else {
    std::vector<int64_t> listed(static_cast<size_t>(devices));
    for (int64_t& device : listed) {
      const auto number = words.integer();
      if (!number) return std::nullopt;
      device = *number;
      words.accept(",");
    }
    if (!describe(listed, found)) return std::nullopt;
  }
  if (found.permutation.empty()) {
    found.permutation.resize(found.reshape.size());
    std::iota(found.permutation.begin(), found.permutation.end(), 0);
  }
  int64_t product = 1;
  std::vector<bool> seen(found.reshape.size());
  if (found.permutation.size() != found.reshape.size()) return std::nullopt;
  for (const int64_t p : found.permutation) {
    if (p < 0 || p >= static_cast<int64_t>(seen.size()) || seen[static_cast<size_t>(p)])
      return std::nullopt;
    seen[static_cast<size_t>(p)] = true;
  }
  for (const int64_t r : found.reshape)
    if (r < 1 || __builtin_mul_overflow(product, r, &product)) return std::nullopt;
  if (product != devices) return std::nullopt;
  found.last_replicated =
      words.accept("last_tile_dim_replicate") || words.accept("last_tile_dims={replicated}");
  if (!words.accept("}")) return std::nullopt;
  return found;
}

}  // namespace orrery::partition
