#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orrery/api/model_choice.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/hardware/cluster.h"
#include "orrery/serving/adapter_slots.h"
#include "orrery/serving/engine/engine_times.h"
#include "orrery/serving/engine/layout.h"
#include "orrery/serving/host_memory.h"
#include "orrery/serving/step_times.h"

namespace orrery {

/// An engine that serves a model.
struct EngineRequest : ModelChoice {
  std::string model;   ///< A Hugging Face config.json or a zoo name.
  std::string device;  ///< A device or a cluster; of a device, the cluster it is usually in.
  std::vector<Override> overrides;
  std::string engine = "vllm";  ///< "vllm", "sglang", "trtllm", "vidur"
  std::vector<std::pair<std::string, std::string>> settings = {};  ///< Of the engine's constants.
  ServingLayout layout;
  ServingPrecision precision;
  double memory_fraction = 0.9;    ///< Of a device's memory that the engine may take.
  int64_t max_batched_tokens = 0;  ///< 0: the engine's own (Session::with_limits), …
  int64_t max_seqs = 0;            ///< … as here.
  int64_t block_tokens = 16;
  int64_t kv_blocks = 0;     ///< 0: what memory leaves.
  double host_memory = 0;    ///< Bytes of the host that keep keys and values of one engine.
  BytesPerSecond host_link;  ///< Of each device to its host, each way; 0: its description's.
  int64_t lora_rank = 0;     ///< Of the adapters that requests ask for; 0: there are none.
  int lora_slots = 8;        ///< Adapters that run at one time, and that a device has room for.
  /// Tables of measured times (serving/engine/step_tables.h), in place of predicted kernels.
  std::vector<std::string> step_profile;
  double routing_skew = 1.2;  ///< Tokens of expert i as (i+1)^-skew; 0: all alike.
};

/// Memory of one device of the engine.
struct EngineMemory {
  double capacity = 0;  ///< What the engine may take.
  double weights = 0;
  double working = 0;   ///< Of a step, and of the runtime.
  double adapters = 0;  ///< Of the slots for them.
  double cache = 0;     ///< What is left for keys and values.
};

struct ServingEngine {
  Cluster cluster;
  TransformerDescription model;
  std::shared_ptr<EngineTimes> times;
  KvRoom room;
  EngineMemory memory;
  HostOptions host;               ///< Of each rank.
  AdapterOptions adapters;        ///< Slots for them.
  double kv_bytes_per_token = 0;  ///< Of a whole engine: what a disaggregated one ships.
  std::vector<std::string> gaps;
  std::vector<std::pair<std::string, std::string>> provenance;
};

/// A cluster by its name, or the one that devices of this kind usually come in; one device alone
/// where none is known.
Cluster usual_cluster(const Catalogue& catalogue, const std::string& device,
                      const std::vector<Override>& overrides);

/// What weights and steps of `request.max_batched_tokens` leave for keys and values; `kInfeasible`
/// where that is nothing. The rest of the engine is as it was.
void divide_memory(ServingEngine& engine, const EngineRequest& request);

}  // namespace orrery
