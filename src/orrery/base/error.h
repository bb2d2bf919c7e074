#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace orrery {

/// What ends a request, and the exit code the command line gives for it.
enum class ErrorKind : int {
  kUsage = 2,       ///< The request itself is wrong: unknown option, unknown name.
  kInput = 3,       ///< A file is malformed, truncated or not supported.
  kInfeasible = 4,  ///< Understood, but it does not fit or cannot be met.
  kInternal = 70,   ///< Our fault.
};

/// "usage", "input", "infeasible" or "internal".
std::string_view name(ErrorKind kind);

/// A place in an input. Lines and columns count from 1; 0 means "not known".
struct SourceLocation {
  std::string file;
  int64_t line = 0;
  int64_t column = 0;
};

/// Thrown for whatever ends the current request. `what()` is the full message
/// a user should read: "FILE:LINE:COLUMN: message".
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);
  Error(ErrorKind kind, SourceLocation where, std::string message);

  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }
  const SourceLocation& where() const { return where_; }
  /// The message without its location.
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return full_.c_str(); }

 private:
  ErrorKind kind_;
  SourceLocation where_;
  std::string message_;
  std::string full_;
};

[[noreturn]] void throw_usage(std::string message);
[[noreturn]] void throw_infeasible(std::string message);
[[noreturn]] void throw_internal(std::string message);
/// Bad input in `file` as a whole, where no line can be named.
[[noreturn]] void throw_input(std::string_view file, std::string message);

}  // namespace orrery
