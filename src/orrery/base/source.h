#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "orrery/base/error.h"

namespace orrery {

/// The bytes of one input: a file mapped into memory, or a string. Readers work
/// on `text()` without copying and report errors by byte offset; line and
/// column are worked out only when an error is thrown.
class Source {
 public:
  /// Maps a regular file; throws `kInput` when it cannot be read.
  static Source from_file(const std::string& path);
  /// Owns a copy of `text`; `name` stands where a path would in messages.
  static Source from_memory(std::string name, std::string text);

  std::string_view text() const { return text_; }
  const std::string& name() const { return name_; }

  /// The same bytes, not copied, as a format without lines: errors name the byte.
  Source binary() const;

  SourceLocation location(size_t offset) const;
  /// Throws `kInput` pointing at byte `offset`.
  [[noreturn]] void fail(size_t offset, std::string message) const;

 private:
  Source() = default;
  std::string name_;
  std::shared_ptr<const void> storage_;
  std::string_view text_;
  bool binary_ = false;
};

}  // namespace orrery
