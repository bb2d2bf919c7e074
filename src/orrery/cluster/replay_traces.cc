#include "orrery/cluster/replay_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include "orrery/base/output_file.h"
#include "orrery/workload/chakra/reader.h"
#include "orrery/workload/chakra/writer.h"

namespace orrery {
namespace {

using astra::Part;
using chakra::Trace;
using chakra::TraceNode;

std::string file_of(const std::string& prefix, int rank) {
  return fmt::format("{}.{}.et", prefix, rank);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// How far round the ring a peer is; -1 where none is named.
int distance(int peer, int rank, int ranks) {
  return peer < 0 ? -1 : ((peer - rank) % ranks + ranks) % ranks;
}

/// The first node in which the two ranks' traces differ but for who they are, or -1.
int64_t first_difference(const Trace& a, int rank_a, const Trace& b, int rank_b, int ranks) {
  const size_t count = std::min(a.nodes().size(), b.nodes().size());
  for (uint32_t i = 0; i < count; ++i) {
    TraceNode x = a.nodes()[i];
    TraceNode y = b.nodes()[i];
    y.id = x.id;  // ids only say which node goes first
    x.source = distance(x.source, rank_a, ranks);
    x.destination = distance(x.destination, rank_a, ranks);
    y.source = distance(y.source, rank_b, ranks);
    y.destination = distance(y.destination, rank_b, ranks);
    if (!(x == y) || !std::ranges::equal(a.children(i), b.children(i))) return i;
  }
  if (a.nodes().size() != b.nodes().size()) return static_cast<int64_t>(count);
  return a.groups() == b.groups() ? -1 : 0;
}

}  // namespace

ReplayTraces load_traces(const std::string& prefix, int ranks, bool extend) {
  ReplayTraces traces;
  // Reading is most of the work of a replay whose ranks are alike: bytes that were read
  // before are not read again. To compare large files takes as long as to read them.
  constexpr size_t kCompared = size_t{64} << 20;
  std::unordered_map<std::string_view, const Trace*> known;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = file_of(prefix, rank);
    if (!exists(path)) {
      if (extend && rank > 0) break;
      throw_input(path, fmt::format("no such file: rank {} of {} has no trace{}", rank, ranks,
                                    rank > 0 ? " (with --ranks it may do as the others)" : ""));
    }
    const Source source = Source::from_file(path);
    const bool compared = source.text().size() <= kCompared;
    const Trace* trace = nullptr;
    if (const auto at = compared ? known.find(source.text()) : known.end(); at != known.end()) {
      trace = at->second;
    } else {
      traces.files.push_back(std::make_unique<Trace>(source));
      trace = traces.files.back().get();
      if (compared) known.emplace(source.text(), trace);
    }
    traces.parts.push_back({trace, rank, 0});
    ++traces.traced_ranks;
  }
  if (extend && exists(file_of(prefix, ranks)))
    throw_usage(
        fmt::format("{} has traces of more than {} ranks: playing only some of them is not "
                    "modelled",
                    prefix, ranks));
  traces.all_alike = true;
  const Part first = traces.parts[0];
  const bool messages = std::ranges::any_of(
      first.trace->nodes(), [](const TraceNode& n) { return n.source >= 0 || n.destination >= 0; });
  for (const Part& part : traces.parts) {
    if (part.trace == first.trace && !messages) continue;
    const int64_t node = first_difference(*first.trace, first.traced_as, *part.trace,
                                          part.traced_as, traces.traced_ranks);
    if (node < 0) continue;
    traces.all_alike = false;
    if (traces.traced_ranks == ranks) break;
    throw_input(part.trace->file(),
                fmt::format("{} ranks were traced and {} are asked for, but from {} on this rank "
                            "does not do as rank 0 does",
                            traces.traced_ranks, ranks,
                            static_cast<size_t>(node) < part.trace->nodes().size()
                                ? part.trace->named(static_cast<uint32_t>(node))
                                : "its end"));
  }
  if (traces.traced_ranks < ranks)
    traces.parts.assign(static_cast<size_t>(ranks), {first.trace, 0, traces.traced_ranks});
  return traces;
}

void write_traces(const ReplayTraces& traces, const std::string& prefix) {
  const auto ranks = static_cast<int>(traces.parts.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Part& part = traces.parts[static_cast<size_t>(rank)];
    const Source source = Source::from_file(part.trace->file());
    chakra::Reader reader(source);
    OutputFile out(file_of(prefix, rank));
    out.write(encoded(reader.metadata()));
    for (chakra::Node node; reader.next(node);) {
      if (part.traced_ranks != 0)
        for (chakra::Attribute& a : node.attributes)
          if ((a.name == "comm_src" || a.name == "comm_dst") && a.is_whole())
            a.numbers[0] = static_cast<uint64_t>(
                astra::moved_peer(part, static_cast<int>(a.numbers[0]), rank, ranks));
      out.write(encoded(node));
    }
    out.commit();
  }
}

}  // namespace orrery
