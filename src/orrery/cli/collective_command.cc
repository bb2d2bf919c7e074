#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <stdexcept>

#include "orrery/base/output_file.h"
#include "orrery/base/parse_number.h"
#include "orrery/cli/command.h"
#include "orrery/cluster/collective.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

double bytes_of(const std::string& text) {
  if (const auto value = parse_number<double>(text)) return *value;
  try {
    return parse_quantity(text, Dimension::kBytes);
  } catch (const std::invalid_argument& e) {
    throw_usage(fmt::format("--bytes: {}", e.what()));
  }
}

std::string kinds_help() {
  std::string text = "Kinds:";
  for (size_t i = 0; i < kCollectiveKindCount; ++i)
    text += fmt::format("{}{}{}", i > 0 ? "," : "", i == kCollectiveKindCount / 2 ? "\n" : " ",
                        name(static_cast<CollectiveKind>(i)));
  return text +
         "\nBytes are as nccl-tests count them: of an all-gather the whole result, of a\n"
         "reduce-scatter the whole input, of an all-to-all what one rank sends, else one buffer.\n"
         "A batch has the columns kind, bytes, ranks and perhaps stride and dtype; the output "
         "adds\n"
         "predicted_us, low_us, high_us (90 %), algorithm, protocol.\n\n"
         "Examples:\n"
         "  orrery collective all-reduce --bytes 64MiB --ranks 8 --on dgx-h100\n"
         "  orrery collective all-gather --bytes 1GiB --ranks 4 --stride 8 --on dgx-h100\n"
         "  orrery collective all-reduce --bytes 1GB --ranks 1024 --on dgx-h100 --network flow\n"
         "  orrery collective --batch examples/collectives.csv --on dgx-h100\n"
         "  orrery collective --fit my-cluster.yaml=measured.csv --out my.json";
}

class CollectiveCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("KIND", request_.kind, "What the ranks do together, e.g. all-reduce");
    app.add_option("--on", request_.cluster,
                   "The cluster: a name that 'orrery hardware' lists, or a YAML file of your own")
        ->type_name("CLUSTER");
    app.add_option("--bytes", bytes_, "Size as nccl-tests count it: 1048576 or 1MiB")
        ->type_name("SIZE");
    app.add_option("--ranks", request_.ranks, "Ranks of the group")->type_name("N");
    app.add_option("--stride", request_.stride, "From one rank of the group to the next")
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--dtype", request_.dtype, "Element type")
        ->type_name("DTYPE")
        ->capture_default_str();
    app.add_option("--library", request_.library,
                   "What runs it (see 'orrery models'); nccl on GPUs unless given")
        ->type_name("LIBRARY");
    app.add_option("--algorithm", request_.algorithm, "Force one, as NCCL_ALGO does")
        ->type_name("NAME");
    app.add_option("--protocol", request_.protocol, "Force ll, ll128 or simple, as NCCL_PROTO does")
        ->type_name("NAME");
    app.add_option("--network", request_.network.name,
                   "Simulate the fabric instead: analytic, flow (max-min fair sharing of every "
                   "link) or packet (ns-3, where built in)")
        ->type_name("NETWORK");
    app.add_flag("--exact", request_.network.exact,
                 "Simulate every transfer by itself, not one of each kind");
    app.add_option("--slow-link", request_.network.slow_links,
                   "A link with a part of its bandwidth, e.g. 3-nvlink.0=0.5 or 3-4=0 (dead)")
        ->type_name("A-B=FACTOR")
        ->expected(1)
        ->take_all();
    app.add_option("--straggler", request_.network.stragglers,
                   "A rank that starts late, e.g. 3=2ms, or sends slower, e.g. 3=0.5x")
        ->type_name("RANK=DELAY")
        ->expected(1)
        ->take_all();
    app.add_option("--background", request_.network.background,
                   "Share of every link that other traffic takes, e.g. 0.2")
        ->type_name("SHARE");
    app.add_option("--routing", request_.network.routing,
                   "How flows spread over a fat tree: destination, or hash (equal-cost multipath, "
                   "where flows may collide)")
        ->type_name("ROUTING")
        ->capture_default_str();
    app.add_option("--set", sets_,
                   "What if a figure were another, e.g. fabric.nvlink.bandwidth=900GB/s or "
                   "device.memory.bandwidth=6TB/s")
        ->type_name("PATH=QUANTITY")
        ->expected(1)
        ->take_all();
    app.add_option("--batch", batch_, "CSV with the columns kind, bytes, ranks")->type_name("FILE");
    app.add_option("--fit", fits_,
                   "Fit constants to a table of measured times (kind, bytes, ranks, perhaps stride "
                   "and dtype, us), all inside a node or all over several; several clusters give "
                   "one generic fit")
        ->type_name("CLUSTER=CSV")
        ->expected(1)
        ->take_all();
    app.add_option("--out", out_, "File to write; standard output of a batch unless given")
        ->type_name("FILE");
    declare_json(app);
    app.footer(kinds_help());
  }

  int run() override {
    const Session session;
    if (!fits_.empty()) return fit(session);
    if (request_.cluster.empty()) throw_usage("--on CLUSTER is missing");
    request_.overrides = read_overrides(sets_);
    if (!batch_.empty()) {
      if (json_) throw_usage("a batch writes CSV; leave --json out");
      if (!request_.network.name.empty()) throw_usage("--network takes one call, not a batch");
      const Source table = Source::from_file(batch_);
      OutputFile out(out_);
      session.collective_table(request_, table, [&](std::string_view text) { out.write(text); });
      out.commit();
      return 0;
    }
    if (request_.kind.empty() || (bytes_.empty() && request_.kind != "barrier") ||
        request_.ranks == 0)
      throw_usage("KIND, --bytes and --ranks are needed, or --batch FILE");
    if (!bytes_.empty()) request_.bytes = bytes_of(bytes_);
    const CollectiveAnswer answer = session.collective(request_);
    if (json_)
      fmt::print("{}\n", to_json(answer, request_));
    else
      fmt::print("{}", collective_text(answer, request_));
    return 0;
  }

 private:
  int fit(const Session& session) const {
    CollectiveFitRequest request;
    for (const std::string& text : fits_) request.tables.push_back(split_pair(text, "--fit"));
    if (!request_.library.empty()) request.library = request_.library;
    request.out = out_;
    const CollectiveFitAnswer answer = session.fit_collectives(request);
    if (json_)
      fmt::print("{}\n", to_json(answer, request));
    else
      fmt::print("{}", collective_fit_text(answer));
    return 0;
  }

  CollectiveRequest request_;
  std::string bytes_, batch_, out_;
  std::vector<std::string> sets_, fits_;
};

const Registration<Command> kCollective(
    {.name = "collective",
     .summary = "How long ranks of a cluster take for an all-reduce and its like",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<CollectiveCommand>(); });

}  // namespace
}  // namespace orrery
