#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

/// Writes the Trace Event Format (JSON), which ui.perfetto.dev and chrome://tracing open.
/// Times are nanoseconds.
class TraceEvents {
 public:
  /// Processes are shown in the order of their numbers, and so are tracks inside them.
  void name_process(int process, const std::string& name);
  void name_track(int process, int track, const std::string& name);
  /// `quoted_name` and `arguments` are JSON.
  void slice(int process, int track, std::string_view quoted_name, int64_t start, int64_t end,
             std::string_view arguments);
  void counter(int process, const char* name, int64_t time, double value, const char* unit);
  /// Slices that may overlap others: those of one category and number lie inside each other.
  void async_slice(int process, const char* category, size_t number, const char* name,
                   int64_t start, int64_t end, std::string_view arguments);
  /// The whole trace; `other` is a JSON object of what it tells of itself.
  std::string finish(const std::string& other) const;

 private:
  void describe_track(int process, int track, const char* key, const std::string& value);
  void add(const std::string& event);

  std::string events_;
};

}  // namespace orrery
