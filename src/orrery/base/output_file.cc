#include "orrery/base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "orrery/base/error.h"

namespace orrery {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool copy_all(int from, int to) {
  std::array<char, 1 << 16> buffer{};
  if (::lseek(from, 0, SEEK_SET) != 0) return false;
  while (true) {
    const ssize_t size = ::read(from, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    if (size == 0) return true;
    if (!write_all(to, {buffer.data(), static_cast<size_t>(size)})) return false;
  }
}

int unnamed_file() {
  std::error_code none;
  std::string name = (std::filesystem::temp_directory_path(none) / "orrery-XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(name.c_str());
  return fd;
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  struct stat info {};
  const bool exists = !path_.empty() && ::stat(path_.c_str(), &info) == 0;
  if (path_.empty() || (exists && !S_ISREG(info.st_mode))) {
    if (exists && S_ISDIR(info.st_mode)) {
      errno = EISDIR;
      fail();
    }
    fd_ = unnamed_file();
  } else {
    // A link stays: what it points to is replaced.
    std::error_code unresolved;
    const auto target = std::filesystem::canonical(path_, unresolved);
    if (!unresolved) path_ = target.string();
    growing_ = fmt::format("{}.{}.part", path_, ::getpid());
    fd_ = ::open(growing_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                 exists ? info.st_mode & 0777 : 0666);
    if (fd_ < 0) growing_.clear();
  }
  if (fd_ < 0) fail();
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!growing_.empty()) ::unlink(growing_.c_str());
}

void OutputFile::fail() const {
  throw_usage(fmt::format("cannot write '{}': {}", path_.empty() ? "standard output" : path_,
                          std::strerror(errno)));
}

void OutputFile::write(std::string_view text) {
  if (!write_all(fd_, text)) fail();
}

void OutputFile::commit() {
  if (!growing_.empty()) {
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed != 0 || std::rename(growing_.c_str(), path_.c_str()) != 0) fail();
    growing_.clear();
    return;
  }
  if (path_.empty()) {
    std::fflush(stdout);
    if (!copy_all(fd_, STDOUT_FILENO)) fail();
    return;
  }
  const int to = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (to < 0) fail();
  const bool copied = copy_all(fd_, to);
  ::close(to);
  if (!copied) fail();
}

void write_file(const std::string& path, std::string_view text) {
  OutputFile out(path);
  out.write(text);
  out.commit();
}

}  // namespace orrery
