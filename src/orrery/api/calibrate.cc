#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "orrery/api/measured_rows.h"
#include "orrery/api/session.h"
#include "orrery/base/output_file.h"
#include "orrery/kernel/tile/calibration.h"
#include "orrery/kernel/tile/fit_store.h"

namespace orrery {
namespace {

constexpr size_t kWorstRows = 5;

/// As a shell takes it, quoted where it must be.
std::string argument(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=+:,@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string command_of(const CalibrateRequest& request) {
  std::string command = "orrery calibrate " + argument(request.device);
  for (const std::string& table : request.tables) command += " --from " + argument(table);
  command += fmt::format(" --stack {} --seed {}", request.stack, request.seed);
  if (request.hold_out > 0) command += fmt::format(" --hold-out {}", request.hold_out);
  if (request.node_us) command += fmt::format(" --node-us {}", *request.node_us);
  return command;
}

/// It becomes part of a file's name.
void check_stack(const std::string& stack) {
  const bool good =
      !stack.empty() && stack.size() <= 64 && std::all_of(stack.begin(), stack.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      });
  if (!good)
    throw_usage(fmt::format("a stack is named by lower-case letters, digits and dashes, not '{}'",
                            stack.substr(0, 64)));
}

/// Moves the rows to a machine whose empty launch takes `node_us`.
void move_to_node(DeviceRows& read, double node_us) {
  const MeasuredTable& table = read.table;
  if (table.empty_seconds <= 0) {
    read.notes.push_back(
        fmt::format("{} has no rows of op empty: its times are taken as they are", table.file));
    return;
  }
  const double shift = node_us * 1e-6 - table.empty_seconds;
  for (MeasuredRow& row : read.table.rows) {
    row.seconds += shift;
    if (row.seconds <= 0)
      throw Error(ErrorKind::kInput, {table.file, row.line, 0},
                  fmt::format("nothing is left of this time once an empty launch takes {} us "
                              "instead of {:.3f} us",
                              node_us, table.empty_seconds * 1e6));
  }
  read.notes.push_back(
      fmt::format("the times of {} were moved by {:+.3f} us, from an empty launch "
                  "of {:.3f} us to one of {} us",
                  table.file, shift * 1e6, table.empty_seconds * 1e6, node_us));
}

/// Why `calibrate` did not fit a row of this class.
std::string reason_left_out(TileClass tile_class, const TileFit& fit) {
  if (fit.find(tile_class) != nullptr) return "a repeat: the middle one counts";
  return fmt::format("of the class {} there are fewer than {} rows", name(tile_class), kFewestRows);
}

/// All tables' rows, with where each came from.
struct CollectedRows {
  std::vector<MeasuredRow> rows;
  std::vector<JudgedRow> judged;  ///< File, line and operator of each; not yet predicted.
};

}  // namespace

CalibrateAnswer Session::calibrate(const CalibrateRequest& request) const {
  check_stack(request.stack);
  if (request.hold_out < 0 || request.hold_out == 1)
    throw_usage("hold_out must be 2 or more: one row in so many is left out");
  if (request.tables.empty()) throw_usage("calibrate needs at least one measured table");
  if (request.node_us && !(*request.node_us > 0 && *request.node_us < 1e6))
    throw_usage("node_us must be the microseconds of an empty launch");
  const Device device = catalogue_.device(request.device);
  require_tile_device(device);

  CalibrateAnswer answer;
  answer.command = command_of(request);
  answer.out =
      request.out.empty() ? fmt::format("{}.{}.json", device.name, request.stack) : request.out;
  CollectedRows all;
  TileProtocol protocol;
  for (const std::string& path : request.tables) {
    DeviceRows read = read_device_rows(path, device);
    if (request.node_us) move_to_node(read, *request.node_us);
    protocol.quantizes |= read.table.quantizes;
    protocol.warm |= read.table.warm;
    for (const LeftOut& l : read.left_out)
      add_left_out(answer.left_out, l.operation, l.reason, l.rows);
    answer.notes.insert(answer.notes.end(), read.notes.begin(), read.notes.end());
    for (const MeasuredRow& row : read.table.rows) {
      const std::string& operation = read.table.operations[row.operation];
      if (row.regime == OperatingPoint::Regime::kSustained && row.sm_hz <= 0) {
        add_left_out(answer.left_out, operation, "measured sustained, without its clock");
        continue;
      }
      if (request.hold_out > 0 && is_held_out(row, request.hold_out)) {
        add_left_out(answer.left_out, operation, "held out to be judged by");
        continue;
      }
      all.rows.push_back(row);
      all.judged.push_back({path, row.line, operation, row.seconds, 0, 0, 0});
    }
  }

  CalibrationOptions options;
  options.protocol = protocol;
  options.seed = request.seed;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Calibration made = orrery::calibrate(device, all.rows, options);
  made.fit.stack = request.stack;
  made.fit.command = answer.command;
  made.fit.sources = request.tables;

  std::vector<JudgedRow> judged;
  std::vector<std::string> classes, operators;
  std::vector<bool> used(all.rows.size(), false);
  for (const OutOfFold& o : made.out_of_fold) {
    JudgedRow row = all.judged[o.row];
    row.measured = o.measured;
    row.predicted = o.predicted;
    row.low = o.low;
    row.high = o.high;
    used[o.row] = true;
    classes.emplace_back(name(o.tile_class));
    operators.push_back(row.operation);
    judged.push_back(std::move(row));
  }
  const TileGpu gpu(device, protocol);
  for (size_t i = 0; i < all.rows.size(); ++i)
    if (!used[i])
      add_left_out(answer.left_out, all.judged[i].operation,
                   reason_left_out(gpu.class_of(all.rows[i].kernel), made.fit));
  if (judged.empty())
    throw_input(request.tables.front(),
                fmt::format("no class of kernels has {} rows to be fitted to", kFewestRows));
  answer.all = accuracy_of("all", judged);
  answer.by_class = accuracy_by(judged, classes);
  answer.by_operator = accuracy_by(judged, operators);
  answer.worst = worst_of(std::move(judged), kWorstRows);

  OutputFile file(answer.out);
  file.write(to_json(made.fit));
  file.commit();
  return answer;
}

}  // namespace orrery
