#include "orrery/api/json_answer.h"

namespace orrery {

ReplayAnswer Session::replay(const ReplayRequest& request) const { return orrery::replay(request); }

std::string to_json(const ReplayAnswer& a, const ReplayRequest& request) {
  JsonAnswer ranks = JsonAnswer::array();
  for (size_t i = 0; i < a.ranks.size(); ++i) {
    const ReplayRank& r = a.ranks[i];
    ranks.push_back({{"rank", i},
                     {"finish_ns", r.finish_ns},
                     {"compute_ns", r.compute_ns},
                     {"host_ns", r.host_ns},
                     {"exposed_communication_ns", r.exposed_communication_ns()}});
  }
  return write({{"schema", schema("replay")},
                {"prefix", request.prefix},
                {"network", request.network},
                {"system", request.system},
                {"groups", request.groups},
                {"congestion", request.congestion ? "aware" : "unaware"},
                {"total_ns", a.total_ns},
                {"traced_ranks", a.traced_ranks},
                {"nodes", a.nodes},
                {"folded", a.folded},
                {"messages", a.messages},
                {"ranks", ranks},
                {"notes", a.notes}});
}

}  // namespace orrery
