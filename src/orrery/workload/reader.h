#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "orrery/base/registry.h"
#include "orrery/base/source.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// What a model description leaves open: which pass, at what size. Used by
/// readers of descriptions (Hugging Face, the zoo), ignored by readers of graphs.
struct BuildOptions {
  bool operator==(const BuildOptions&) const = default;

  std::string phase = "forward";  ///< forward, prefill, decode, train
  int64_t batch = 1;
  int64_t sequence = 0;                        ///< New tokens (or patches' default when 0).
  int64_t context = 0;                         ///< Tokens already in the cache, for decode.
  std::string dtype;                           ///< Empty: what the description says.
  std::map<std::string, std::string> choices;  ///< e.g. logits=all|last, attention=full|causal
};

struct ReadOptions {
  /// Sizes for open dimensions by name (`--bind batch=8`); "?" binds all unnamed ones.
  std::map<std::string, int64_t> bindings;
  /// Trip count of loops that cannot be inferred; 0: count once and say so in `gaps`.
  int64_t trip_count = 0;
  BuildOptions build;
};

/// Turns one file format into a `Workload`. Registered by name in
/// `Registry<Reader>`; `read_workload` asks each whether the file is its own.
/// Any bytes at all must give a workload or an `Error`, in bounded time and memory.
class Reader {
 public:
  virtual ~Reader() = default;
  /// Decides by content first (the opening bytes), by file name where that is not enough.
  virtual bool recognises(const Source& source) const = 0;
  virtual Workload read(const Source& source, const ReadOptions& options) const = 0;
  /// Whether files describe a model, so that `BuildOptions` apply; else they hold a graph.
  virtual bool builds_models() const { return false; }
};

/// For formats whose open dimensions have no names: any binding but "?" is `kUsage`.
void refuse_named_bindings(const ReadOptions& options);

/// Reads with the reader that recognises `source`; `kInput` with the list of
/// formats when none does.
Workload read_workload(const Source& source, const ReadOptions& options);
/// `path_or_zoo_name`: an existing file, or a name `orrery zoo` lists.
Workload load_workload(const std::string& path_or_zoo_name, const ReadOptions& options);

}  // namespace orrery
