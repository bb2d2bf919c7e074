#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/power.h"
#include "orrery/kernel/tile/fit.h"

namespace orrery {

/// The fit in a file. Each file is parsed once a process and shared, until it changes.
/// Throws `kInput` for what is no fit. May be called from several threads at once.
std::shared_ptr<const TileFit> load_tile_fit(const std::string& path);

/// What was measured of GPUs' power, the folder's kernels/power.json, parsed once as fits are.
std::shared_ptr<const PowerFit> load_power_fit(const Binding& binding);

/// Whether the folder has a fit of the device under this very stack.
bool has_tile_fit(const std::string& data_folder, const std::string& device,
                  const std::string& stack);

/// The folder's fit over several devices under the stack or its family; empty: there is none.
std::string generic_fit_path(const std::string& data_folder, const std::string& stack);

/// Throws `kUsage` for a device that lacks what describing a kernel takes.
void require_tile_device(const Device& device);

/// The fits that may answer for a device under a stack, best first:
///   1. the user's own, `Binding::fit`;
///   2. the folder's kernels/DEVICE.STACK.json, or one over several,
///   kernels/DEVICE+DEVICE….STACK.json;
///   3. that of the stack's family: kernels/DEVICE.torch.json for torch-eager;
///   4. the device's fits under other stacks, by name, for kernels that stacks share, and for
///      those of PyTorch that vLLM launches where it has none of its own, in wider intervals;
///   5. those of `Device::kernels_like`, a device of the same chip, in the order of 2 to 4;
///   6. kernels/generic.STACK.json, over several devices, likewise.
/// A class of kernels is answered by the first that knows it. Files are read when the
/// first kernel wants them, the best one at once.
class FitChoice {
 public:
  FitChoice(const Device& device, const Binding& binding);

  struct OfClass {
    const ClassFit* fit = nullptr;  ///< None: the physical estimate must do.
    TileProtocol protocol;          ///< Under which the fit's rows were measured.
    /// They were timed one by one on other devices, in windows that end before a clock settles.
    bool windows_elsewhere = false;
    bool alike = false;  ///< It is that of `Device::kernels_like`.
    std::string gap;     ///< What is wanting in it, as a sentence; empty: nothing.
  };
  /// May be called from several threads at once.
  const OfClass& of(TileClass tile_class) const;

 private:
  enum class Origin : uint8_t { kUser, kOwn, kAlike, kGeneric };
  struct Candidate {
    std::string path;
    Origin origin;
    bool other_stack = false;
    bool lends = false;  ///< The stack launches that other one's kernels where it has none.
    std::shared_ptr<const TileFit> fit;  ///< Null until read.
  };
  struct Slot {
    std::once_flag once;
    OfClass chosen;
    ClassFit widened;  // as this device sees a fit over others, or this stack one of another
  };

  void add_candidates(const std::string& folder, const std::string& device, Origin origin);
  OfClass choose(TileClass tile_class, ClassFit& widened) const;
  std::string gap_of(TileClass tile_class, const Candidate& candidate, bool first) const;

  std::string device_, stack_;
  GpuFigures figures_;
  mutable std::mutex reading_;
  mutable std::vector<Candidate> candidates_;
  mutable std::array<Slot, kTileClassCount> slots_;
};

}  // namespace orrery
