#include "orrery/base/error.h"

#include <fmt/format.h>

namespace orrery {
namespace {

std::string full_message(const SourceLocation& where, const std::string& message) {
  if (where.file.empty()) return message;
  if (where.line <= 0) return fmt::format("{}: {}", where.file, message);
  if (where.column <= 0) return fmt::format("{}:{}: {}", where.file, where.line, message);
  return fmt::format("{}:{}:{}: {}", where.file, where.line, where.column, message);
}

}  // namespace

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kInfeasible:
      return "infeasible";
    case ErrorKind::kInternal:
      break;
  }
  return "internal";
}

Error::Error(ErrorKind kind, std::string message)
    : Error(kind, SourceLocation{}, std::move(message)) {}

Error::Error(ErrorKind kind, SourceLocation where, std::string message)
    : kind_(kind),
      where_(std::move(where)),
      message_(std::move(message)),
      full_(full_message(where_, message_)) {}

void throw_usage(std::string message) { throw Error(ErrorKind::kUsage, std::move(message)); }

void throw_infeasible(std::string message) {
  throw Error(ErrorKind::kInfeasible, std::move(message));
}

void throw_internal(std::string message) { throw Error(ErrorKind::kInternal, std::move(message)); }

void throw_input(std::string_view file, std::string message) {
  throw Error(ErrorKind::kInput, SourceLocation{std::string(file), 0, 0}, std::move(message));
}

}  // namespace orrery
