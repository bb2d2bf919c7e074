#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orrery/api/model_choice.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"

namespace orrery {

/// A measured row and what was predicted of it; seconds.
struct JudgedRow {
  std::string file;
  uint32_t line = 0;
  std::string operation;  ///< "gemm bf16"
  double measured = 0;
  double predicted = 0;
  double low = 0, high = 0;  ///< The 90 % interval.

  /// |predicted / measured - 1|
  double error() const;
  bool inside() const { return low <= measured && measured <= high; }
};

/// How far predictions of one kind of rows are from what was measured. Errors are shares
/// of the measured time: 0.1 is 10 %.
struct Accuracy {
  std::string name;
  size_t rows = 0;
  double mean_error = 0, median_error = 0, p90_error = 0, worst_error = 0;
  double spearman = 0;           ///< Rank correlation of measured and predicted times.
  double coverage = 0;           ///< Share of the rows inside their 90 % intervals …
  double coverage_p = 0;         ///< … and the chance of one as odd, were it truly 0.9.
  double median_half_width = 0;  ///< Of (high - low) / 2 over the predicted time.
  double interval_score = 0;  ///< Mean of Winkler's (learn/statistics.h), over the measured time.
  /// The same of predicted · (1 ± w) for the one w that holds 90 % of these rows: what
  /// intervals must beat to tell sure from unsure.
  double constant_interval_score = 0;
};

/// At least one row.
Accuracy accuracy_of(std::string name, std::span<const JudgedRow> rows);
/// One for each of the names, of which every row has one; sorted.
std::vector<Accuracy> accuracy_by(std::span<const JudgedRow> rows,
                                  std::span<const std::string> names);
/// The `most` rows with the largest errors, worst first.
std::vector<JudgedRow> worst_of(std::vector<JudgedRow> rows, size_t most);

/// Rows that were not used.
struct LeftOut {
  std::string operation;
  size_t rows = 0;
  std::string reason;
};

struct CalibrateRequest {
  /// "generic": one fit for any device, from tables of several.
  std::string device;
  /// CSV files as kernel/measured_table.h reads them. For "generic", DEVICE=FILE says whose
  /// rows a file holds; one that names its devices may go without.
  std::vector<std::string> tables;
  std::string stack = "torch";  ///< Whose kernels were measured: a stack or its family.
  uint64_t seed = 1;            ///< Of the folds.
  /// Time of an empty launch on the machine to predict for, in µs: the rows of a table with
  /// a yardstick (op `empty`) are moved by the difference. Absent: taken as they are.
  std::optional<double> node_us;
  /// One row in so many, by a hash of its operator, is left out of the fit, to be judged by
  /// (ValidateRequest::held_out); 0: none.
  int hold_out = 0;
  /// A fit over other devices to begin from: a file, "none", or "" for what is shipped
  /// (kernels/generic.STACK.json) unless that was made from this device too.
  std::string prior;
  std::string out;  ///< Where the fit goes; DEVICE.STACK.json unless given.
};

/// Everything here was predicted by fits that had not seen the row.
struct CalibrateAnswer {
  std::string out;
  std::string command;  ///< That makes this fit again.
  Accuracy all;
  std::vector<Accuracy> by_class;     ///< Kernels that were fitted together.
  std::vector<Accuracy> by_operator;  ///< "gemm bf16"
  std::vector<JudgedRow> worst;
  std::vector<LeftOut> left_out;
  std::vector<std::string> notes;
};

struct ValidateRequest : ModelChoice {
  std::string table;
  std::string device;
  std::vector<Override> overrides;
  std::string stack = "torch-eager";
  std::string regime;  ///< "burst" or "sustained": only rows measured so; "": all.
  int held_out = 0;    ///< Only what CalibrateRequest::hold_out leaves out; 0: all rows.
};

struct ModelAccuracy {
  std::string model;
  Accuracy all;
  std::vector<Accuracy> by_family;
};

struct ValidateAnswer {
  std::vector<ModelAccuracy> models;  ///< The model asked for, then `roofline` beside it.
  std::vector<JudgedRow> worst;       ///< Of the first.
  std::vector<LeftOut> left_out;
  std::vector<std::string> notes;
  std::vector<std::string> gaps;
};

std::string to_json(const CalibrateAnswer& answer, const CalibrateRequest& request);
std::string to_json(const ValidateAnswer& answer, const ValidateRequest& request);

}  // namespace orrery
