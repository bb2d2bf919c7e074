#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/base/output_file.h"
#include "orrery/cli/command.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

class ReplayCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PREFIX", request_.prefix,
                   "Chakra execution traces: PREFIX.0.et, PREFIX.1.et … one a rank")
        ->required();
    app.add_option("--network", request_.network,
                   "ASTRA-sim's network YAML: topology, npus_count, bandwidth, latency")
        ->type_name("FILE")
        ->required();
    app.add_option("--system", request_.system,
                   "ASTRA-sim's system JSON: collective implementations, chunks, scheduling")
        ->type_name("FILE")
        ->required();
    app.add_option("--groups", request_.groups, "Communicator groups, a JSON {\"1\": [0, 1]}")
        ->type_name("FILE");
    app.add_option("--congestion", congestion_,
                   "aware: a link carries one message at a time; unaware: latency and bandwidth "
                   "alone")
        ->type_name("aware|unaware")
        ->check(CLI::IsMember({"aware", "unaware"}))
        ->capture_default_str();
    app.add_option("--ranks", request_.ranks,
                   "Ranks to play; more than were traced where all of those do the same. The "
                   "network's last dimension is fitted to them")
        ->type_name("N")
        ->check(CLI::Range(1, kMostReplayRanks));
    app.add_flag("--exact", request_.exact,
                 "Simulate every rank, even where one tells of all, which gives the same");
    app.add_option("--top", most_, "Rows of ranks to list")
        ->check(CLI::Range(0, 1 << 20))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--perfetto", perfetto_, "Write a timeline that ui.perfetto.dev opens")
        ->type_name("FILE");
    app.add_option("--write", request_.write, "Write the traces played, as PREFIX.<rank>.et")
        ->type_name("PREFIX");
    declare_json(app);
    app.footer(
        "Examples:\n"
        "  orrery replay examples/chakra/step --network examples/chakra/network.yml \\\n"
        "      --system examples/chakra/system.json\n"
        "  orrery replay step --network ring.yml --system sys.json --ranks 1024 --congestion "
        "unaware");
  }
  int run() override {
    request_.congestion = congestion_ == "aware";
    request_.timeline = !perfetto_.empty();
    const ReplayAnswer answer = Session().replay(request_);
    if (!perfetto_.empty()) write_file(perfetto_, perfetto_trace(answer, request_));
    if (json_)
      fmt::print("{}\n", to_json(answer, request_));
    else
      fmt::print("{}", replay_text(answer, request_, most_));
    return 0;
  }

 private:
  ReplayRequest request_;
  std::string congestion_ = "aware";
  std::string perfetto_;
  size_t most_ = 16;
};

const Registration<Command> kReplay(
    {.name = "replay",
     .summary = "Play Chakra execution traces on a cluster, with ASTRA-sim's inputs and answers",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<ReplayCommand>(); });

}  // namespace
}  // namespace orrery
