#pragma once

#include <string>
#include <string_view>

#include "orrery/base/csv.h"
#include "orrery/serving/engine/step_tables.h"

namespace orrery {

// What readers of StepTables share; each throws `kInput` with line and column.

[[noreturn]] void fail_at(const CsvReader& reader, size_t column, std::string message);
double number_field(const CsvReader& reader, size_t column);
/// A whole number from 0 to 2^40.
int64_t size_field(const CsvReader& reader, size_t column);
/// Microseconds from 0 to 1e12; the field is in units of `microseconds`.
double time_field(const CsvReader& reader, size_t column, double microseconds);

/// Times of an operator that no table had so far.
void put_operator(StepTables& tables, const Source& source, EngineOperator what, RaggedGrid times);
void put_attention(StepTables& tables, const Source& source, RaggedGrid prompts, RaggedGrid next);
void put_experts(StepTables& tables, const Source& source, RaggedGrid experts);

/// Whether a column is one of VIDUR's times.
bool is_vidur_table(const CsvReader& reader);
void read_vidur_table(const Source& source, const ProfiledEngine& engine, StepTables& tables);

}  // namespace orrery
