#include "orrery/base/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace orrery {
namespace {

/// Opened without blocking, so that a pipe is refused rather than waited for.
class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Source Source::from_file(const std::string& path) {
  FileDescriptor fd(path);
  if (fd.get() < 0) throw_input(path, std::string("cannot open: ") + std::strerror(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_input(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) throw_input(path, "is a folder, a file was expected");
  if (!S_ISREG(info.st_mode)) throw_input(path, "is not a regular file");
  Source source;
  source.name_ = path;
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return source;
  // Files of usual size are faster read at once; of larger ones no more is in memory than was read.
  constexpr size_t kReadAtOnce = size_t{64} << 20;
  const int flags = MAP_PRIVATE | (size <= kReadAtOnce ? MAP_POPULATE : 0);
  void* memory = ::mmap(nullptr, size, PROT_READ, flags, fd.get(), 0);
  if (memory == MAP_FAILED) throw_input(path, std::string("cannot map: ") + std::strerror(errno));
  if (size > kReadAtOnce) ::madvise(memory, size, MADV_SEQUENTIAL);
  source.storage_ = std::shared_ptr<const void>(
      memory, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  source.text_ = std::string_view(static_cast<const char*>(memory), size);
  return source;
}

Source Source::from_memory(std::string name, std::string text) {
  Source source;
  source.name_ = std::move(name);
  auto owned = std::make_shared<const std::string>(std::move(text));
  source.text_ = *owned;
  source.storage_ = std::move(owned);
  return source;
}

SourceLocation Source::location(size_t offset) const {
  offset = std::min(offset, text_.size());
  const std::string_view before = text_.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  return {name_, line, static_cast<int64_t>(offset - start) + 1};
}

Source Source::binary() const {
  Source same = *this;
  same.binary_ = true;
  return same;
}

void Source::fail(size_t offset, std::string message) const {
  if (binary_) throw_input(name_, fmt::format("byte {}: {}", offset, message));
  throw Error(ErrorKind::kInput, location(offset), std::move(message));
}

}  // namespace orrery
