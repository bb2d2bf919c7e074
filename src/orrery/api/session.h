#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/api/accuracy.h"
#include "orrery/api/collectives.h"
#include "orrery/api/model_choice.h"
#include "orrery/api/plan.h"
#include "orrery/api/serving.h"
#include "orrery/api/serving_engine.h"
#include "orrery/api/timeline.h"
#include "orrery/api/train.h"
#include "orrery/api/trust.h"
#include "orrery/base/registry.h"
#include "orrery/base/source.h"
#include "orrery/cluster/replay.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/model/stack.h"
#include "orrery/workload/reader.h"

namespace orrery {

/// Version of the JSON that answers are written in; grows when a field changes
/// meaning or goes, not when one is added.
inline constexpr int kSchemaVersion = 1;

/// What a prediction is asked for.
struct PredictRequest : ModelChoice {
  std::string workload;  ///< A file, or a name of the zoo.
  std::string device;    ///< A catalogue name, or a YAML file.
  std::vector<Override> overrides;
  std::string stack = "xla";
  /// Sustained: the clock that the step's mean power allows; burst: the full one.
  OperatingPoint point = {OperatingPoint::Regime::kSustained, {}};
  ReadOptions read;
  bool list_launches = false;  ///< Fill PredictAnswer::launch_rows.
  bool timeline = false;       ///< Whether the answer's timeline is wanted.
};

/// Kernels alike in every respect, together.
struct KernelSummary {
  std::string name;    ///< "dot_general bf16 512×11008×4096"
  std::string kind;    ///< The kernel's family.
  std::string bound;   ///< "compute", "memory", …
  double count = 0;    ///< Launches a step.
  double time_s = 0;   ///< Of all of them.
  double flops = 0;    ///< Of one.
  double bytes = 0;    ///< Of one.
  uint32_t fused = 1;  ///< Operations in one.
};

/// One launch of the program, as a row that can be measured (tools/measure).
struct LaunchRow {
  std::string name;               ///< Of its operation in the file.
  std::string op, dtype, params;  ///< Empty where no operator describes it.
  double count = 0;
  double predicted_us = 0, low_us = 0, high_us = 0;
};

struct MemoryAnswer {
  double peak_bytes = 0;
  double arguments_bytes = 0;
  double outputs_bytes = 0;
  double temporaries_bytes = 0;
  double constants_bytes = 0;
  double aliased_bytes = 0;
  double capacity_bytes = 0;
  bool fits = true;
  std::string peak_at;             ///< The operation that runs when most is held.
  std::vector<MemoryUse> holders;  ///< The largest that hold memory then.
};

/// What a step is made of. γ = (step − kernels) / kernels is the composition gap.
struct CompositionAnswer {
  double kernels_s = 0;  ///< Σ of all kernels.
  double gaps_s = 0;     ///< The device between them.
  double host_s = 0;     ///< The host for one step, most of it beside the device.
  double gamma = 0;
};

struct PredictAnswer {
  std::string kernel_model;  ///< That answered, where `auto` chose.
  double latency_s = 0, latency_low_s = 0, latency_high_s = 0;
  double single_call_s = 0;
  double energy_j = 0;
  bool energy_known = true;  ///< False where the device's power is not published: JSON null.
  double flops = 0;
  double bytes = 0;
  double launches = 0;
  CompositionAnswer composition;
  MemoryAnswer memory;
  std::vector<KernelSummary> kernels;                     ///< Longest first.
  std::vector<LaunchRow> launch_rows;                     ///< In program order, if asked for.
  std::vector<std::pair<std::string, double>> breakdown;  ///< Seconds by cause, longest first.
  std::vector<std::string> gaps;
  std::vector<std::pair<std::string, std::string>> provenance;
  Trust trust;
  Timeline timeline;  ///< Launch by launch; empty unless asked for. Not part of the JSON.
};

/// One operator of a `kernel --batch` table.
struct OperatorRow {
  std::string op, dtype, params;  ///< As in the CSV; params is a JSON object.
  double sm_mhz = 0;              ///< 0: the regime's clock.
  int64_t line = 0;               ///< For messages, as are:
  struct Place {
    int64_t line = 0, column = 0;
  };
  /// Where op, dtype, params and sm_mhz begin; empty: not known.
  std::vector<Place> cells = {};
};

struct OperatorAnswer {
  double predicted_us = 0, low_us = 0, high_us = 0;
  std::string model;
};

struct OperatorAnswers {
  std::vector<OperatorAnswer> kernels;
  std::vector<std::string> gaps;  ///< What was not modelled, or not measured, of any of them.
};

struct KernelRequest : ModelChoice {
  std::string table;  ///< Where the rows came from, for messages.
  std::string device;
  std::vector<Override> overrides;
  std::string stack = "torch-eager";
  OperatingPoint point;
};

/// The rows of a CSV with the columns op, dtype, params and perhaps sm_mhz.
std::vector<OperatorRow> read_operators(const Source& table);

struct InspectAnswer {
  std::string name, format;
  int64_t partitions = 1, replicas = 1;
  size_t operations = 0;  ///< In the file.
  double executed = 0;    ///< With calls and loops followed.
  size_t functions = 0;   ///< 0: a trace, which has none, nor arguments and outputs.
  double arguments_bytes = 0, outputs_bytes = 0;
  double parameters = 0;  ///< Elements of arguments known to be weights; 0: the file does not say.
  double parameter_bytes = 0;
  std::vector<std::pair<std::string, double>> flops;  ///< By unit and type: "matrix bf16".
  double total_flops = 0, bytes_read = 0, bytes_written = 0;
  struct OpCount {
    std::string name;
    size_t count = 0;
    double executed = 0;
    double flops = 0;
    double bytes = 0;
  };
  std::vector<OpCount> by_operation;  ///< Most FLOPs first, then bytes, then name.
  struct CollectiveUse {
    std::string kind;
    double count = 0;
    double bytes = 0;        ///< Of one, on one device.
    int64_t group_size = 0;  ///< 0: all devices.
  };
  std::vector<CollectiveUse> collectives;
  std::vector<std::string> meshes;
  size_t shardings = 0;
  size_t unknown_operations = 0;
  std::vector<std::string> dynamic;  ///< Why nothing can be sized, if so.
  std::vector<std::string> notes;
};

struct CompareRequest;  // api/compare.h
struct CompareAnswer;
struct StepDetail;
struct CapacityRequest;  // api/capacity.h
struct CapacityAnswer;

/// The library's front door: an immutable set of catalogue and fitted data.
/// Command line, Python and later front ends call this and nothing else.
///
///     Session session;
///     PredictRequest request;
///     request.workload = "model.mlir";
///     request.device = "h200";
///     PredictAnswer answer = session.predict(request);
///
/// Faults throw `Error` (base/error.h). All methods may be called from several
/// threads at once.
class Session {
 public:
  /// Finds the catalogue and the data that came with the library.
  Session();
  Session(std::string hardware_folder, std::string data_folder);

  PredictAnswer predict(const PredictRequest& request) const;
  /// One workload on several devices, against the first of them (api/compare.h).
  CompareAnswer compare(const CompareRequest& request) const;
  OperatorAnswers predict_operators(const KernelRequest& request,
                                    const std::vector<OperatorRow>& rows) const;
  /// The CSV `table` with the columns predicted_us, low_us, high_us and model added,
  /// given to `write` piece by piece: its rows are read, predicted and forgotten, a
  /// million a second, whatever the length of the table. Rows keep their own quoting. Gives back
  /// the gaps.
  std::vector<std::string> predict_table(const KernelRequest& request, const Source& table,
                                         const std::function<void(std::string_view)>& write) const;
  /// Fits the kernel model `tile` to measurements of a device and writes the fit.
  CalibrateAnswer calibrate(const CalibrateRequest& request) const;
  /// Compares measurements with predictions at each row's own clock.
  ValidateAnswer validate(const ValidateRequest& request) const;
  CollectiveAnswer collective(const CollectiveRequest& request) const;
  /// The CSV `table` (kind, bytes, ranks and perhaps stride and dtype) with predicted_us, low_us,
  /// high_us, algorithm and protocol added, given to `write` piece by piece.
  void collective_table(const CollectiveChoice& choice, const Source& table,
                        const std::function<void(std::string_view)>& write) const;
  /// Fits a library's constants to measured collectives and writes them.
  CollectiveFitAnswer fit_collectives(const CollectiveFitRequest& request) const;
  /// One step of training a model on a cluster under a strategy. A strategy that cannot run the
  /// model is `kInfeasible`, with all that is wrong with it.
  TrainAnswer train(const TrainRequest& request) const;
  /// The quickest strategies for a model on so many devices; `kInfeasible`, with what to change,
  /// where none can be.
  PlanAnswer plan(const PlanRequest& request) const;
  /// What `train` asks, for many strategies.
  TrainingModel training_model(const std::string& model, const std::string& cluster,
                               const std::vector<Override>& overrides) const;
  /// The request with the limits that its engine sets where it says none.
  EngineRequest with_limits(EngineRequest request) const;
  /// An engine as a simulation asks it for the times of its steps; `kInfeasible` where the model
  /// does not fit.
  ServingEngine serving_engine(const EngineRequest& request) const;
  /// What users of a fleet of engines wait for, by simulation.
  ServingAnswer serving(const ServingRequest& request) const;
  /// The most load that keeps a promise, or the fewest devices for a load (api/capacity.h);
  /// `kInfeasible`, with what to change, where nothing keeps it.
  CapacityAnswer capacity(const CapacityRequest& request) const;
  /// A Chakra trace (.et) too.
  InspectAnswer inspect(const std::string& workload, const ReadOptions& options) const;
  /// Plays Chakra traces as ASTRA-sim does.
  ReplayAnswer replay(const ReplayRequest& request) const;

  const Catalogue& catalogue() const { return catalogue_; }
  /// Registered components of a kind: "readers", "kernel models", "stacks", "collective
  /// libraries", "collective algorithms", "networks", "network schedules", "schedulers", "routers".
  std::vector<std::pair<std::string, std::vector<Description>>> models() const;

  /// One request as JSON, with a "command" of predict, compare, kernel, calibrate, validate,
  /// collective, train, plan, serving, capacity, inspect, replay, hardware, models or zoo and the
  /// fields of the requests above; the answer as JSON.
  std::string call(std::string_view request_json) const;

 private:
  /// `detail`, unless null, is filled with what the answer was made of.
  PredictAnswer predict(const PredictRequest& request, StepDetail* detail) const;

  Catalogue catalogue_;
  std::string data_folder_;
};

/// Answers as documented in docs/json.md. Doubles are written so that they read
/// back exactly, keys in a fixed order.
std::string to_json(const PredictAnswer& answer, const PredictRequest& request);
std::string to_json(const InspectAnswer& answer);
std::string to_json(const ReplayAnswer& answer, const ReplayRequest& request);
std::string operators_json(const std::vector<OperatorRow>& rows, const OperatorAnswers& answers);
std::string hardware_json(const Catalogue& catalogue, const std::string& name,
                          const std::vector<Override>& overrides);
std::string models_json(const Session& session);
std::string zoo_json();

/// A JSON answer for an error: {"error": {"kind", "exit_code", "message", "file",
/// "line", "column"}}.
std::string to_json(const Error& error);

}  // namespace orrery
