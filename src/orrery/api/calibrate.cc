#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "orrery/api/measured_rows.h"
#include "orrery/api/session.h"
#include "orrery/base/output_file.h"
#include "orrery/kernel/measured_table_check.h"
#include "orrery/kernel/tile/calibration.h"
#include "orrery/kernel/tile/fit_store.h"

namespace orrery {
namespace {

/// From one H200 to another: empty launches took 0.59 to 0.95 us on those of data/measured and
/// of the validation tables; 63 operators that two of ours ran lie 2 % apart, and yardsticks on
/// four of ours up to 3.5 %. The larger share is by the validation table, of which 2 % left 87 %
/// inside.
constexpr Elsewhere kElsewhere = {.launch = 0.13e-6, .machine = 0.03};
constexpr size_t kWorstRows = 5;
/// In place of a device: one fit for any.
constexpr const char* kGeneric = "generic";

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
  if (!request.prior.empty()) command += " --prior " + argument(request.prior);
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

/// Why a row of this class was not fitted.
std::string reason_left_out(TileClass tile_class, const TileFit& fit, const TileFit* prior) {
  if (fit.find(tile_class) != nullptr) return "a repeat: the middle one counts";
  const bool begun = prior != nullptr && prior->find(tile_class) != nullptr;
  return fmt::format("of the class {} there are fewer than {} rows", name(tile_class),
                     begun ? kFewestRowsWithPrior : kFewestRows);
}

/// A table to be read, and whose rows of it.
struct TableOfDevice {
  std::string device, file;
  bool others_follow = false;  ///< Rows of other devices in it are taken in their turn.
};

/// For one device all tables are its own. For any device each file says whose it is, before
/// an equals sign or in its rows.
std::vector<TableOfDevice> tables_of(const CalibrateRequest& request) {
  std::vector<TableOfDevice> tables;
  if (request.device != kGeneric) {
    for (const std::string& file : request.tables) tables.push_back({request.device, file});
    return tables;
  }
  for (const std::string& text : request.tables) {
    const size_t equals = text.find('=');
    if (equals != std::string::npos) {
      tables.push_back({text.substr(0, equals), text.substr(equals + 1)});
      continue;
    }
    for (const std::string& reported : read_measured_table(Source::from_file(text)).devices) {
      if (reported.empty())
        throw_usage(
            fmt::format("whose rows '{}' holds is not said: give it as DEVICE={}", text, text));
      tables.push_back({catalogue_name(reported), text, true});
    }
  }
  return tables;
}

/// One device's rows of all its tables, with where each came from.
struct CollectedRows {
  Device device;
  std::vector<MeasuredRow> rows;
  std::vector<JudgedRow> judged;      ///< File, line and operator of each; not yet predicted.
  std::vector<Measurement> measured;  ///< All rows read, as they were before any moved.
};

/// The tables' rows by device, in the order devices are first named.
class Collection {
 public:
  Collection(const CalibrateRequest& request, CalibrateAnswer& answer)
      : request_(request), answer_(answer) {}

  void add(const TableOfDevice& table, const Device& device) {
    DeviceRows read = read_device_rows(table.file, device);
    std::vector<Measurement> measured;
    for (const MeasuredRow& row : read.table.rows) measured.push_back(measurement(read.table, row));
    if (request_.node_us) move_to_node(read, *request_.node_us);
    const TileProtocol protocol{read.table.quantizes, read.table.warm, read.table.eager};
    if (!devices_.empty() && !(protocol == protocol_))
      throw_input(table.file,
                  "was measured under another protocol than the tables before it: fit it apart");
    protocol_ = protocol;
    if (!table.others_follow)
      for (const LeftOut& l : read.left_out)
        add_left_out(answer_.left_out, l.operation, l.reason, l.rows);
    answer_.notes.insert(answer_.notes.end(), read.notes.begin(), read.notes.end());
    CollectedRows& all = of(device);
    std::move(measured.begin(), measured.end(), std::back_inserter(all.measured));
    for (const MeasuredRow& row : read.table.rows) {
      const std::string& operation = read.table.operations[row.operation];
      if (row.regime == OperatingPoint::Regime::kSustained && row.sm_hz <= 0) {
        add_left_out(answer_.left_out, operation, "measured sustained, without its clock");
        continue;
      }
      if (request_.hold_out > 0 && is_held_out(row, request_.hold_out)) {
        add_left_out(answer_.left_out, operation, "held out to be judged by");
        continue;
      }
      all.rows.push_back(row);
      all.judged.push_back({table.file, row.line, operation, row.seconds, 0, 0, 0});
    }
  }

  const std::deque<CollectedRows>& devices() const { return devices_; }
  TileProtocol protocol() const { return protocol_; }

 private:
  CollectedRows& of(const Device& device) {
    for (CollectedRows& known : devices_)
      if (known.device.name == device.name) return known;
    return devices_.emplace_back(CollectedRows{device, {}, {}, {}});
  }

  const CalibrateRequest& request_;
  CalibrateAnswer& answer_;
  std::deque<CollectedRows> devices_;
  TileProtocol protocol_;
};

/// Says which classes too few devices had for errors on a device not seen.
void note_few_devices(const Calibration& made, const std::deque<CollectedRows>& devices,
                      CalibrateAnswer& answer) {
  std::map<TileClass, std::set<size_t>> seen_on;
  size_t device = 0, rows_before = 0;
  for (const OutOfFold& o : made.out_of_fold) {
    while (o.row >= rows_before + devices[device].rows.size())
      rows_before += devices[device++].rows.size();
    seen_on[o.tile_class].insert(device);
  }
  std::string classes;
  for (const auto& [tile_class, on] : seen_on)
    if (on.size() < kFewestDevices)
      classes += fmt::format("{}{}", classes.empty() ? "" : ", ", name(tile_class));
  if (classes.empty()) return;
  answer.notes.push_back(
      fmt::format("fewer than {} devices have {}: the errors of these are on the devices "
                  "measured, and the fit takes {} times their intervals",
                  kFewestDevices, classes, kUnseenDevice));
}

/// Says which rows were not believed, and why.
void note_contradictions(const Calibration& made, CalibrateAnswer& answer) {
  for (const ContradictedRows& c : made.contradicted)
    answer.notes.push_back(fmt::format(
        "{} rows of the class {} on {}, {}, take {:.1f} times as long as the device's other rows "
        "and "
        "other devices have it (a clock held low, another machine?): they were left out",
        c.rows.size(), name(c.tile_class), c.device,
        c.batched ? "products of several matrices" : "one operation", c.factor));
}

/// The fit to begin from, and where it lies; null: none. One that was not asked for is passed
/// over where it does not fit: a build with other features makes it anew.
std::shared_ptr<const TileFit> prior_of(const CalibrateRequest& request, const Device& device,
                                        TileProtocol protocol, const std::string& data_folder,
                                        std::string& path, std::vector<std::string>& notes) {
  const bool asked_for = !request.prior.empty();
  if (request.prior == "none") return nullptr;
  path = asked_for ? request.prior : generic_fit_path(data_folder, request.stack);
  if (path.empty()) return nullptr;
  std::shared_ptr<const TileFit> prior;
  try {
    prior = load_tile_fit(path);
  } catch (const Error& error) {
    if (asked_for) throw;
    notes.push_back(
        fmt::format("began from nothing, since a fit over other devices cannot be "
                    "read: {}",
                    error.what()));
    return nullptr;
  }
  const bool seen =
      std::find(prior->devices.begin(), prior->devices.end(), device.name) != prior->devices.end();
  if (!seen && prior->protocol == protocol)
    return std::make_shared<const TileFit>(seen_from(TileGpu(device).figures(), *prior));
  if (asked_for)
    throw_input(path, seen ? fmt::format("was made from rows of {} too: errors out of fold would "
                                         "look smaller than they are",
                                         device.name)
                           : "was measured under another protocol than these tables");
  return nullptr;
}

}  // namespace

CalibrateAnswer Session::calibrate(const CalibrateRequest& request) const {
  check_stack(request.stack);
  if (request.hold_out < 0 || request.hold_out == 1)
    throw_usage("hold_out must be 2 or more: one row in so many is left out");
  if (request.tables.empty()) throw_usage("calibrate needs at least one measured table");
  if (request.node_us && !(*request.node_us > 0 && *request.node_us < 1e6))
    throw_usage("node_us must be the microseconds of an empty launch");
  const bool generic = request.device == kGeneric;
  if (generic && !request.prior.empty())
    throw_usage("a fit for any device begins from nothing: 'prior' is for one device");

  CalibrateAnswer answer;
  answer.command = command_of(request);
  Collection all(request, answer);
  for (const TableOfDevice& table : tables_of(request)) {
    const Device device = catalogue_.device(table.device);
    require_tile_device(device);
    all.add(table, device);
  }
  for (const CollectedRows& one : all.devices()) refuse_contradictions(one.measured);
  const Device& first = all.devices().front().device;
  answer.out = request.out.empty()
                   ? fmt::format("{}.{}.json", generic ? kGeneric : first.name, request.stack)
                   : request.out;

  CalibrationOptions options;
  options.protocol = all.protocol();
  options.seed = request.seed;
  if (request.node_us) options.elsewhere = kElsewhere;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string prior_path;
  std::shared_ptr<const TileFit> prior;
  Calibration made;
  if (generic) {
    std::vector<RowsOnDevice> tables;
    for (const CollectedRows& one : all.devices()) tables.push_back({&one.device, one.rows});
    made = calibrate_generic(tables, options);
    note_few_devices(made, all.devices(), answer);
  } else {
    prior = prior_of(request, first, options.protocol, data_folder_, prior_path, answer.notes);
    options.prior = prior.get();
    made = orrery::calibrate(first, all.devices().front().rows, options);
  }
  note_contradictions(made, answer);
  std::set<uint32_t> contradicted;
  for (const ContradictedRows& c : made.contradicted)
    contradicted.insert(c.rows.begin(), c.rows.end());
  made.fit.stack = request.stack;
  made.fit.command = answer.command;
  made.fit.sources = request.tables;
  if (prior != nullptr) {
    made.fit.sources.push_back(prior_path);
    answer.notes.push_back(
        fmt::format("began from {}, a fit over other devices, where that did better", prior_path));
  }

  std::vector<JudgedRow> judged;
  std::vector<std::string> classes, operators;
  auto next = made.out_of_fold.begin();
  uint32_t number = 0;
  for (const CollectedRows& one : all.devices()) {
    const TileGpu gpu(one.device, options.protocol);
    for (size_t i = 0; i < one.rows.size(); ++i, ++number) {
      JudgedRow row = one.judged[i];
      if (next == made.out_of_fold.end() || next->row != number) {
        add_left_out(
            answer.left_out, row.operation,
            contradicted.count(number) > 0
                ? fmt::format("contradicts what else was measured on {}", one.device.name)
                : reason_left_out(gpu.class_of(one.rows[i].kernel), made.fit, prior.get()));
        continue;
      }
      row.measured = next->measured;
      row.predicted = next->predicted;
      row.low = next->low;
      row.high = next->high;
      classes.emplace_back(name(next->tile_class));
      operators.push_back(generic ? one.device.name + " " + row.operation : row.operation);
      judged.push_back(std::move(row));
      ++next;
    }
  }
  if (judged.empty())
    throw_input(request.tables.front(),
                fmt::format("no class of kernels has {} rows to be fitted to",
                            prior != nullptr ? kFewestRowsWithPrior : kFewestRows));
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
