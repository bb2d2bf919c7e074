#include "orrery/kernel/tile/fit_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "orrery/base/data_folder.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;

/// Whether a fit of such a name, "v100" or "p100+v100", is of the device.
bool is_of(std::string_view name, std::string_view device) {
  while (true) {
    const size_t end = name.find('+');
    if (name.substr(0, end) == device) return true;
    if (end == std::string_view::npos) return false;
    name.remove_prefix(end + 1);
  }
}

bool was_measured(const TileFit& fit, const std::string& device) {
  return fit.device == device || std::ranges::find(fit.devices, device) != fit.devices.end();
}

/// Files of the folder called DEVICE.STACK.json, or DEVICE+DEVICE….STACK.json, as (stack, path) by
/// stack.
std::map<std::string, std::string> fits_of_device(const fs::path& folder,
                                                  const std::string& device) {
  constexpr std::string_view kSuffix = ".json";
  std::map<std::string, std::string> found;
  std::error_code none;  // a folder that is not there holds no fits
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string file = entry.path().filename().string();
    const size_t dot = file.find('.');
    if (!file.ends_with(kSuffix) || dot + 1 + kSuffix.size() >= file.size()) continue;
    const std::string stack = file.substr(dot + 1, file.size() - kSuffix.size() - dot - 1);
    if (stack.find('.') == std::string::npos && is_of(file.substr(0, dot), device))
      found.emplace(stack, entry.path().string());
  }
  return found;
}

fs::path kernels_folder(const Binding& binding) {
  return (binding.data.empty() ? fitted_data_folder() : fs::path(binding.data)) / "kernels";
}

/// The file as `parse` reads it, shared until it changes.
template <class Fit>
std::shared_ptr<const Fit> load_once(const std::string& path, Fit (*parse)(const JsonValue&)) {
  struct Read {
    fs::file_time_type written;
    uintmax_t bytes = 0;
    std::shared_ptr<const Fit> fit;
  };
  static std::mutex mutex;
  static std::map<std::string, Read> known;

  std::error_code written_unknown, bytes_unknown;  // then the reader says what is wrong
  const fs::file_time_type written = fs::last_write_time(path, written_unknown);
  const uintmax_t bytes = fs::file_size(path, bytes_unknown);
  const std::lock_guard lock(mutex);
  Read& read = known[path];
  if (read.fit == nullptr || written_unknown || bytes_unknown || read.written != written ||
      read.bytes != bytes)
    read = {written, bytes,
            std::make_shared<const Fit>(parse(JsonValue::parse(Source::from_file(path))))};
  return read.fit;
}

/// Of what a fit for any device is called.
constexpr const char* kAnyDevice = "generic";
/// The stack whose kernels tools/measure/kernels.py times one by one.
constexpr std::string_view kOneByOne = "torch";

/// The stack that is written in PyTorch, whose kernels it launches where it has none.
constexpr std::string_view kInPyTorch = "vllm";
/// How many times as wide intervals are of kernels that another stack lends: it may bring
/// another version, and is timed by itself. A stated prior.
constexpr double kWiderWhereLent = 2;

/// Whether a stack written in PyTorch has no kernel of its own for the class. vLLM has for norms
/// and the softmax of routers (csrc/layernorm_kernels.cu, csrc/moe/topk_softmax_kernels.cu); the
/// sums and look-ups of its steps were checked as the data sheet times them (docs/validation.md).
bool is_lent(TileClass tile_class) {
  return tile_class == TileClass::kScan || tile_class == TileClass::kMove;
}

/// "torch-eager" and "torch".
std::array<std::string, 2> with_family(const std::string& stack) {
  return {stack, stack.substr(0, stack.find('-'))};
}

/// "vector products": a class of kernels in a sentence.
std::string in_words(TileClass tile_class) {
  std::string words(name(tile_class));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words + " kernels";
}

}  // namespace

void require_tile_device(const Device& device) {
  if (device.vector[ElementType::kF32].value <= 0)
    throw_usage(
        fmt::format("kernel model 'tile' needs the fp32 vector rate of {}, which is not "
                    "published",
                    device.name));
}

bool has_tile_fit(const std::string& data_folder, const std::string& device,
                  const std::string& stack) {
  return fits_of_device(fs::path(data_folder) / "kernels", device).contains(stack);
}

std::string generic_fit_path(const std::string& data_folder, const std::string& stack) {
  auto fits = fits_of_device(fs::path(data_folder) / "kernels", kAnyDevice);
  for (const std::string& exact : with_family(stack))
    if (const auto found = fits.find(exact); found != fits.end()) return found->second;
  return "";
}

std::shared_ptr<const TileFit> load_tile_fit(const std::string& path) {
  return load_once<TileFit>(path, tile_fit_from_json);
}

std::shared_ptr<const PowerFit> load_power_fit(const Binding& binding) {
  return load_once<PowerFit>((kernels_folder(binding) / "power.json").string(),
                             power_fit_from_json);
}

FitChoice::FitChoice(const Device& device, const Binding& binding)
    : device_(device.name), stack_(binding.stack), figures_(TileGpu(device).figures()) {
  if (!binding.fit.empty())
    candidates_.push_back({binding.fit, Origin::kUser, false, false, nullptr});
  const std::string folder = kernels_folder(binding).string();
  add_candidates(folder, device_, Origin::kOwn);
  if (!device.kernels_like.empty() && device.kernels_like != device_)
    add_candidates(folder, device.kernels_like, Origin::kAlike);
  add_candidates(folder, kAnyDevice, Origin::kGeneric);
  // A file that cannot be read should end the request before its first kernel.
  if (!candidates_.empty()) candidates_.front().fit = load_tile_fit(candidates_.front().path);
}

void FitChoice::add_candidates(const std::string& folder, const std::string& device,
                               Origin origin) {
  auto fits = fits_of_device(folder, device);
  for (const std::string& stack : with_family(stack_))
    if (const auto found = fits.extract(stack); !found.empty())
      candidates_.push_back({found.mapped(), origin, false, false, nullptr});
  const bool in_pytorch = with_family(stack_).back() == kInPyTorch;
  for (const auto& [stack, path] : fits)
    candidates_.push_back({path, origin, true, in_pytorch && stack == kOneByOne, nullptr});
}

const FitChoice::OfClass& FitChoice::of(TileClass tile_class) const {
  Slot& slot = slots_[static_cast<size_t>(tile_class)];
  std::call_once(slot.once, [&] { slot.chosen = choose(tile_class, slot.widened); });
  return slot.chosen;
}

FitChoice::OfClass FitChoice::choose(TileClass tile_class, ClassFit& widened) const {
  const std::lock_guard lock(reading_);
  for (Candidate& candidate : candidates_) {
    const bool shared = !candidate.other_stack || is_shared_by_stacks(tile_class);
    if (!shared && !(candidate.lends && is_lent(tile_class))) continue;
    if (candidate.fit == nullptr) candidate.fit = load_tile_fit(candidate.path);
    // A product that quantises on its way is another kernel than the library's alone.
    if (candidate.other_stack && candidate.fit->protocol.quantizes &&
        tile_class == TileClass::kByteProduct)
      continue;
    if (const ClassFit* fit = candidate.fit->find(tile_class)) {
      if (fit->growth > 0) {
        widened = seen_from(figures_, *candidate.fit, *fit);
        fit = &widened;
      }
      if (!shared) {
        widened = *fit;
        widened.low *= kWiderWhereLent;
        widened.high *= kWiderWhereLent;
        fit = &widened;
      }
      return {fit, candidate.fit->protocol,
              !was_measured(*candidate.fit, device_) && candidate.fit->stack == kOneByOne,
              candidate.origin == Origin::kAlike,
              gap_of(tile_class, candidate, shared && &candidate == candidates_.data()) +
                  (shared ? "" : ", in intervals twice as wide")};
    }
  }
  if (candidates_.empty())
    return {nullptr,
            {},
            false,
            false,
            fmt::format("{} was never measured: its kernels are timed by its data sheet "
                        "alone ('orrery calibrate' fits a device)",
                        device_)};
  return {nullptr,
          {},
          false,
          false,
          fmt::format("{} were not measured under {}: timed by the data sheet of {} alone",
                      in_words(tile_class), stack_, device_)};
}

std::string FitChoice::gap_of(TileClass tile_class, const Candidate& candidate, bool first) const {
  // Of the best fit one sentence will do; of others, which classes needed them.
  const std::string whose = first ? "kernels" : in_words(tile_class);
  const std::string under = candidate.other_stack ? " under " + candidate.fit->stack : "";
  switch (candidate.origin) {
    case Origin::kUser:
      if (was_measured(*candidate.fit, device_)) return "";
      return fmt::format("{} was fitted on {} and taken for {}", candidate.path,
                         candidate.fit->device, device_);
    case Origin::kOwn:
      if (!was_measured(*candidate.fit, device_)) break;
      if (!candidate.other_stack) return "";
      return fmt::format("{} of {} were not measured under {}: taken as they are{}", whose, device_,
                         stack_, under);
    case Origin::kAlike:
      return fmt::format("{} of {} were not measured: predicted by the fit of {}{}, the same chip",
                         whose, device_, candidate.fit->device, under);
    case Origin::kGeneric:
      break;
  }
  return fmt::format("{} of {} were not measured: predicted by a fit over other devices{}", whose,
                     device_, under);
}

}  // namespace orrery
