#include "orrery/report/trace_events.h"

#include <fmt/format.h>

#include "orrery/report/json_text.h"

namespace orrery {
namespace {

/// Perfetto reads a number of microseconds as a double, multiplies by 1000 and cuts off the
/// rest, then drops slices that overlap: three tenths of a nanosecond more than a whole
/// number is that number, cut off or rounded.
std::string microseconds(int64_t ns) { return fmt::format("{}.{:03}3", ns / 1000, ns % 1000); }

}  // namespace

void TraceEvents::name_process(int process, const std::string& name) {
  add(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process,
                  json_text(name)));
  add(fmt::format(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})",
                  process, process));
}

void TraceEvents::name_track(int process, int track, const std::string& name) {
  describe_track(process, track, "name", json_text(name));
  describe_track(process, track, "sort_index", std::to_string(track));
}

void TraceEvents::slice(int process, int track, std::string_view quoted_name, int64_t start,
                        int64_t end, std::string_view arguments) {
  add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"name":{},"ts":{},"dur":{},"args":{}}})", process,
                  track, quoted_name, microseconds(start), microseconds(end - start), arguments));
}

void TraceEvents::counter(int process, const char* name, int64_t time, double value,
                          const char* unit) {
  add(fmt::format(R"({{"ph":"C","pid":{},"name":"{}","ts":{},"args":{{"{}":{:.15g}}}}})", process,
                  name, microseconds(time), unit, value));
}

void TraceEvents::async_slice(int process, const char* category, size_t number, const char* name,
                              int64_t start, int64_t end, std::string_view arguments) {
  const auto event = [&](char phase, int64_t time, std::string_view with) {
    add(fmt::format(R"({{"ph":"{}","pid":{},"cat":"{}","id":{},"name":"{}","ts":{},"args":{}}})",
                    phase, process, category, number, name, microseconds(time), with));
  };
  event('b', start, arguments);
  event('e', end, "{}");
}

std::string TraceEvents::finish(const std::string& other) const {
  return fmt::format(
      "{{\"displayTimeUnit\":\"ns\",\n\"otherData\":{},\n\"traceEvents\":[\n{}\n]}}\n", other,
      events_);
}

void TraceEvents::describe_track(int process, int track, const char* key,
                                 const std::string& value) {
  add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_{}","args":{{"{}":{}}}}})",
                  process, track, key, key, value));
}

void TraceEvents::add(const std::string& event) {
  if (!events_.empty()) events_ += ",\n";
  events_ += event;
}

}  // namespace orrery
