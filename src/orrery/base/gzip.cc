#include "orrery/base/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string_view>

#include "orrery/base/units.h"

namespace orrery {
namespace {

class Inflater {
 public:
  explicit Inflater(const Source& source) : source_(source) {
    constexpr int kGzipHeader = 16;
    if (::inflateInit2(&stream_, MAX_WBITS + kGzipHeader) != Z_OK)
      throw_internal("zlib could not be set up");
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Hands the inflated bytes to `take` piece by piece, all members after another.
  template <class Take>
  void each_piece(const Take& take) {
    std::string_view rest = source_.text();
    while (true) {
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      const auto offered =
          static_cast<uInt>(std::min<size_t>(rest.size(), std::numeric_limits<uInt>::max()));
      // zlib's interface does not say const, but it only reads.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
      stream_.avail_in = offered;
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      rest.remove_prefix(offered - stream_.avail_in);
      take(std::string_view(reinterpret_cast<const char*>(buffer_.data()),
                            buffer_.size() - stream_.avail_out));
      if (status == Z_STREAM_END) {
        if (rest.empty()) return;
        if (::inflateReset(&stream_) != Z_OK) throw_internal("zlib could not be set up");
      } else if (status == Z_BUF_ERROR ||
                 (status == Z_OK && rest.empty() && stream_.avail_out > 0)) {
        throw_input(source_.name(), "the compressed data ends too early: the file is cut short");
      } else if (status == Z_MEM_ERROR) {
        throw_internal("zlib ran out of memory");
      } else if (status != Z_OK) {
        throw_input(source_.name(), fmt::format("the compressed data is damaged ({})",
                                                stream_.msg != nullptr ? stream_.msg : "not gzip"));
      }
    }
  }

 private:
  const Source& source_;
  z_stream stream_{};
  std::array<Bytef, size_t{1} << 18> buffer_{};
};

template <class Take>
void inflate_each(const Source& source, const Take& take) {
  const auto inflater = std::make_unique<Inflater>(source);
  inflater->each_piece(take);
}

}  // namespace

Source inflated(const Source& source, size_t most) {
  if (!source.text().starts_with("\x1f\x8b")) return source;
  // Twice: the first pass only counts, so that a small file that would inflate to
  // terabytes is refused without holding any of it.
  size_t size = 0;
  inflate_each(source, [&](std::string_view piece) {
    size += piece.size();
    if (size > most)
      throw_input(source.name(),
                  fmt::format("inflates to more than {}", format_bytes(static_cast<double>(most))));
  });
  std::string text;
  text.reserve(size);
  inflate_each(source, [&](std::string_view piece) { text.append(piece); });
  return Source::from_memory(source.name(), std::move(text));
}

}  // namespace orrery
