#pragma once

#include <string>
#include <string_view>

namespace orrery {

/// A file that is written whole or not at all: it grows under another name beside
/// the one asked for and takes its place in `commit`; without that it is removed.
/// Standard output ("" as path) and what is no regular file (a pipe, /dev/null) are
/// written from an unnamed temporary file then. Faults throw `kUsage` naming the path.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::string growing_;  ///< Its name until then; empty for an unnamed one.
  int fd_ = -1;
};

/// All of it at once.
void write_file(const std::string& path, std::string_view text);

}  // namespace orrery
