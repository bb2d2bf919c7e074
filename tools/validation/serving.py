"""Measured deployments against `orrery serving`, for docs/validation.md.

  python3 tools/validation/serving.py build/release/orrery SHARED_DATA
  python3 tools/validation/serving.py build/release/orrery SHARED_DATA --records data/validation.yaml

Prints the section "Serving"; with --records, writes what was seen of deployments into the file that
trust verdicts of `serving` and `capacity` are looked up in, instead. Deployments of
serving/silicon_points.csv are split by a hash of their id: constants of data/serving/*.yaml were
fitted to the first half where they were fitted at all.
"""

import collections
import concurrent.futures
import csv
import json
import statistics
import subprocess
import sys
import tempfile

SYSTEMS = {"h100_sxm": "h100-sxm", "h200_sxm": "h200", "b300_sxm": "b300", "gb200": "gb200", "gb300": "gb300"}
# Four-bit integers are what a model's description says of its layers: of Kimi-K2.5 only the experts have them.
FORMATS = {"": None, "fp8": "fp8", "nvfp4": "fp4", "fp8_block": "fp8_block", "int4_wo": None}
SCHEDULERS = {"vllm": "vllm-v1", "sglang": "sglang", "trtllm": "trtllm"}
# Runs of aiconfigurator's own evaluation; the others are of InferenceX (SemiAnalysis), which draws each length
# between 0.8 and 1 of the given one.
OWN_RUNS = ("meta_llama", "nvidia_", "openai_", "qwen_")


# Of aiconfigurator's generated benchmark (bench_run.sh.j2), whose client, AIPerf, has so many different prompts unless
# told otherwise (its num_dataset_entries).
PROMPTS = 100
BLOCK = 16


def repeats_prompts(row):
    """Its own runs of vLLM with prompts of whole thousands: nothing tells that engine not to cache prefixes (its
    cli_args.j2, disable_prefix_cache being set nowhere), and prompts that were all computed would need up to three
    quarters of the device's 8-bit peak. Its other runs agree with prompts that are all different: those of powers of
    two come from a client that was given as many as there are requests (eval/benchmarks/genai_perf_runner.py), those
    of TensorRT-LLM have enable_block_reuse off; why those of SGLang do is not known."""
    return row["backend"] == "vllm" and row["id"].startswith(OWN_RUNS) and int(row["isl"]) % 1000 == 0


def prompts(row, isl):
    if not repeats_prompts(row):
        return ["--isl", isl]
    shared = (isl - 1) // BLOCK * BLOCK  # the last token is always computed
    return ["--isl", isl - shared, "--prefix-tokens", shared, "--prefixes", PROMPTS]


def own_settings(row, isl):
    """What aiconfigurator's generator tells an engine (its rule_plugin/benchmark): steps of the batch, a prompt and
    1,500 tokens more; keys and values in eight bits with weights in eight bits under TensorRT-LLM; SGLang with
    mixed chunks, but not in the first runs, which agree with its defaults; vLLM 0.12 without asynchronous scheduling, as was its default."""
    tokens = isl + 1500
    if row["backend"] == "sglang":
        return [] if row["backend_version"] < "0.5.6" else ["--max-batched-tokens", tokens, "--mixed-chunk"]
    settings = ["--max-batched-tokens", tokens + number(row["batch_size"])]
    if not repeats_prompts(row):
        settings += ["--no-prefix-caching"]
    if row["backend"] == "vllm":
        settings += ["--no-async"]
    elif row["gemm_quant_mode"].startswith("fp8"):
        settings += ["--kv-dtype", "fp8"]
    return settings


# Recipes of TensorRT-LLM for racks let a kernel begin before the one before it has ended (TRTLLM_ENABLE_PDL=1), which
# no fit of ours has seen. Of factors 1 and 0.85 and gaps of 0 and 0.75 ms those with the least mean |ln| over the 28
# times per token in the first half: 0.27 as the engine is otherwise, 0.12 so.
EARLY_KERNELS = ["--set", "engine.kernels=0.85", "--set", "engine.gap=0us"]

# How often a guess of DeepSeek-R1's own next layer is right: by the times per token of the rows of the first half that
# `guesses_ahead`, of 0.6, 0.65, 0.7 and 0.75 the one with the least median error.
ACCEPTANCE = 0.7


def guesses_ahead(row):
    """DeepSeek-R1 on H200 under TensorRT-LLM: with 128 and 256 users InferenceX ran it with MTP alone
    (dsr1-fp8-h200-trt-mtp of its nvidia-master.yaml); the table's other rows are of the same day and layout, and 1.6
    times faster than those that it has without."""
    return row["backend"] == "trtllm" and row["system"] == "h200_sxm" and "DeepSeek-R1" in row["config"]


def users_unknown(row):
    """gpt-oss under vLLM on H100 with 512 users: a script of InferenceX that gave its client --max-concurrency 512 and
    ten requests for each sequence that the engine was told to run at most, of which the table does not say how many
    there were (4 to 64: gptoss-fp4-h100-vllm of its nvidia-master.yaml)."""
    return ("gpt-oss" in row["config"] and row["backend"] == "vllm" and row["system"] == "h100_sxm"
            and number(row["concurrency"]) == 512)


def requests_a_user(row):
    """Ten; of one script (dsr1_fp8_b300.sh) one."""
    return 1 if row["id"].startswith("dsr1_b300_sglang") else 10


def inferencex_settings(row, isl, osl, users):
    """What its launch scripts say (benchmarks/ of SemiAnalysisAI/InferenceX); where one has changed over time, what
    it said around the time of most rows."""
    model, system, backend = row["model_path"], row["system"], row["backend"]
    eight_bits = ["--kv-dtype", "fp8"]
    if row["mode"] != "agg" or system.startswith("gb"):  # recipes of their own (srt-slurm), of which this was looked at
        if backend == "vllm":
            return []
        if backend == "sglang":
            return [*eight_bits, "--stream-interval", 50]
        return [*eight_bits, "--stream-interval", 100, *EARLY_KERNELS]
    if backend == "vllm":
        if "MiniMax" in model and system == "b300_sxm":
            return ["--max-batched-tokens", 2 * isl, *eight_bits, "--no-prefix-caching"]
        if "Kimi" in model:
            return ["--max-seqs", users, "--memory-fraction", 0.95]
        if "Llama" in model:
            return ["--max-batched-tokens", 8192, "--max-seqs", users, *eight_bits]
        if "gpt-oss" in model:
            return ["--max-batched-tokens", 8192, "--max-seqs", users]
        return []
    if backend == "sglang":
        polls = ["--poll-steps", 30 if users >= 16 else 10]
        stream = ["--stream-interval", 50 if "Qwen3.5" in model else 10 if system == "h200_sxm" else 30]
        if "Qwen3.5" in model and row["precision"] == "fp8":
            polls = ["--poll-steps", 10] if system == "b300_sxm" else []
            return ["--max-batched-tokens", 16384, "--chunk-size", 16384, *polls, *eight_bits, "--memory-fraction", 0.8,
                    *stream]
        if "GLM" in model and system == "h200_sxm":
            return ["--memory-fraction", 0.85, *stream]
        if "GLM" in model or system == "h200_sxm":
            polls = []
        kv = [] if system == "h200_sxm" or row["precision"] == "bf16" else eight_bits
        return ["--max-batched-tokens", 32768, "--chunk-size", 32768, *polls, *kv, "--memory-fraction", 0.82, *stream]
    if "gpt-oss" in model:
        return ["--max-batched-tokens", 20000, "--max-seqs", users, "--stream-interval", 20]
    eight_bits += ["--stream-interval", 10]
    if "Llama" in model:
        waits = ["--wait-steps", 20, "--wait-share", 0.9] if (isl, osl) == (1024, 1024) and int(row["tp_size"]) < 8 else []
        return ["--max-batched-tokens", max(isl + osl + 200, 2048), *eight_bits, *waits]
    if guesses_ahead(row):
        drafts = 1 if number(row["attention_dp_size"]) > 1 else 3
        seqs = users // number(row["attention_dp_size"])
        tokens = -(-((drafts + 1) * seqs + isl + 64) // 64) * 64
        return ["--max-batched-tokens", tokens, "--max-seqs", seqs, *eight_bits, "--draft", drafts, "--acceptance",
                ACCEPTANCE]
    return ["--max-batched-tokens", max(8192, -(-(users + isl + 64) // 64) * 64), *eight_bits]


def serve(program, arguments):
    done = subprocess.run([program, "serving", *map(str, arguments), "--json"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        return done.stderr.strip()
    return json.loads(done.stdout)


def half(name):
    """FNV-1a, 64 bits."""
    value = 1469598103934665603
    for byte in name.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value >> 17 & 1


def number(text, otherwise=1):
    return max(1, int(float(text))) if text else otherwise


def layout(row, pool=""):
    prefix = f"{pool}_" if pool else ""
    option = f"--{pool}-" if pool else "--"
    sizes = {name: number(row[f"{prefix}{name}_size"]) for name in ("tp", "pp", "attention_dp", "moe_ep")}
    if not row[f"{prefix}attention_dp_size"]:  # the ranks that share the experts are those of all groups
        sizes["attention_dp"] = max(1, number(row[f"{prefix}moe_tp_size"]) * sizes["moe_ep"] // sizes["tp"])
    return [word for name, size in sizes.items() for word in (option + name.replace("_", "-"), size)]


def deployment(program, data, row):
    isl, osl = int(row["isl"]), int(row["osl"])
    if users_unknown(row):
        return "the table does not say how many sequences ran"
    own = row["id"].startswith(OWN_RUNS)
    length = str if own else lambda n: f"uniform:{int(0.8 * n)}-{n}"
    users = number(row["concurrency"])
    arguments = [f"{data}/model_configs/{row['config']}", "--on", SYSTEMS[row["system"]], "--scheduler",
                 SCHEDULERS[row["backend"]], "--concurrency", users, "--count",
                 min(requests_a_user(row) * users, max(2 * users, 4000)), "--osl", length(osl)]
    arguments += prompts(row, isl) if own else ["--isl", length(isl)]
    if "gpt-oss" not in row["config"]:  # whose experts have four bits of their own
        for option, mode in (("--dtype", row["gemm_quant_mode"]), ("--expert-dtype", row["moe_quant_mode"])):
            if FORMATS[mode]:
                arguments += [option, FORMATS[mode]]
    arguments += own_settings(row, isl) if own else inferencex_settings(row, isl, osl, users)
    if row["mode"] == "agg":
        arguments += layout(row)
    else:
        arguments += ["--disaggregate", *layout(row, "prefill"), *layout(row, "decode"),
                      "--prefill-workers", number(row["prefill_num_workers"]),
                      "--decode-workers", number(row["decode_num_workers"])]
    return serve(program, arguments)


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def percent(x):
    return f"{100 * x:.1f} %"


def spearman(pairs):
    def ranks(values):
        order = sorted(range(len(values)), key=lambda i: values[i])
        rank = [0] * len(values)
        for place, i in enumerate(order):
            rank[i] = place
        return rank
    a, b = ranks([p[0] for p in pairs]), ranks([p[1] for p in pairs])
    n = len(pairs)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1))


def measured_deployments(program, data):
    """Each row that an answer was given to, with its errors of time per token and first token, and how many were
    refused."""
    with open(f"{data}/serving/silicon_points.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda row: deployment(program, data, row), rows))
    seen = []
    for row, answer in zip(rows, answers):
        if isinstance(answer, str):
            continue
        errors = []
        for name, column in (("tpot", "silicon_tpot_ms"), ("ttft", "silicon_ttft_ms")):
            measured = float(row[column]) / 1e3
            low, high = answer[name]["model_interval"]["mean_s"]
            errors.append((answer[name]["mean_s"] / measured - 1, low <= measured <= high,
                           answer[name]["mean_s"], measured))
        seen.append((row, errors))
    return seen, len(rows) - len(seen)


def has_experts(data, row):
    with open(f"{data}/model_configs/{row['config']}", encoding="utf-8") as file:
        config = json.load(file)
    config = config.get("text_config", config)
    return any(config.get(key) for key in ("num_experts", "n_routed_experts", "num_local_experts"))


# The file's comments and the other records stay; those of this kind are its end.
RECORDS_BEGIN = "  # Deployments, written by tools/validation/serving.py --records:\n"


def write_records(program, data, path):
    groups = collections.defaultdict(list)
    for row, errors in measured_deployments(program, data)[0]:
        groups[(row["backend"], SYSTEMS[row["system"]], "experts" if has_experts(data, row) else "dense",
                "disaggregated" if row["mode"] == "disagg" else "aggregated")].append(errors)
    with open(path, encoding="utf-8") as file:
        text = file.read().split(RECORDS_BEGIN)[0] + RECORDS_BEGIN
    for (engine, device, model, arrangement), errors in sorted(groups.items()):
        text += (f"  - what: deployments\n    kind: deployment\n    data: serving/silicon_points.csv\n"
                 f"    engine: {engine}\n    device: {device}\n    kernel_model: auto\n    model: {model}\n"
                 f"    arrangement: {arrangement}\n    cases: {len(errors)}\n")
        for i, name in enumerate(("tpot", "ttft")):
            sizes = [abs(e[i][0]) for e in errors]
            text += (f"    {name}_median_error: {percent(quantile(sizes, 0.5))}\n"
                     f"    {name}_p90_error: {percent(quantile(sizes, 0.9))}\n"
                     f"    {name}_inside_interval: {sum(e[i][1] for e in errors)}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def deployments(program, data):
    groups, halves = collections.defaultdict(list), ([], [])
    seen, refused = measured_deployments(program, data)
    for row, errors in seen:
        halves[half(row["id"])].append(errors)
        groups[(row["config"].split("--")[-1].removesuffix("_config.json"), row["system"], row["backend"],
                row["mode"])].append(errors)
    print("| deployments | rows | time per token: median error | p90 | inside | first token: median | p90 | inside |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")

    def line(name, errors):
        cells = [name, str(len(errors))]
        for i in (0, 1):
            sizes = [abs(e[i][0]) for e in errors]
            cells += [percent(quantile(sizes, 0.5)), percent(quantile(sizes, 0.9)),
                      percent(sum(e[i][1] for e in errors) / len(errors))]
        print("| " + " | ".join(cells) + " |")

    line("second half, nothing fitted to it", halves[1])
    line("first half", halves[0])
    line("all", halves[0] + halves[1])
    for key, errors in sorted(groups.items()):
        line(" ".join(key), errors)
    ranked = [spearman([(e[0][2], e[0][3]) for e in errors]) for errors in groups.values() if len(errors) >= 5]
    print(f"\nRank correlation of the time per token over configurations of one model and system: median "
          f"{statistics.median(ranked):.3f}, lowest {min(ranked):.3f}. {refused} were refused: their weights do "
          f"not fit the devices that the table gives, it does not say how many sequences ran, or no engine has such a "
          f"layout (DeepSeek-R1 on GB200 is given as one engine of 12 to 72 devices, whose number does not divide the "
          f"heads: pools, it seems).\n")


VIDUR = {("vllm-v0", 200): (0.177, 0.314, 0.027, 0.0093), ("sarathi", 50): (0.158, 0.262, 0.025, 0.0090)}


def vidur_line(program, scheduler, count, truth, more):
    a = serve(program, ["llama2-7b", "--on", "a100-sxm-80gb", "--engine", "vidur", "--scheduler", scheduler,
                        "--rate", 2, "--count", count, "--lengths", "vidur:128-512:20", *more])
    ours = (a["e2e"]["mean_s"], a["e2e"]["p99_s"], a["ttft"]["mean_s"], a["vidur_tpot"]["mean_s"])
    print(f"| {scheduler}, {count} requests | "
          + " | ".join(f"{100 * (x / y - 1):+.1f} %" for x, y in zip(ours, truth)) + " |")


def vidur(program):
    print("| VIDUR's run | mean end to end | p99 | first token | time per token |\n|---|--:|--:|--:|--:|")
    for (scheduler, count), truth in VIDUR.items():
        vidur_line(program, scheduler, count, truth, [])


RUNS = {
    "RTX4090_Llama-3.1-8B": ("rtx-4090", "meta-llama--Meta-Llama-3.1-8B", ["--max-seqs", 256]),
    "RTXPRO6000_Llama-3.1-8B": ("rtx-pro-6000", "meta-llama--Meta-Llama-3.1-8B", ["--max-seqs", 128]),
    "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507": ("rtx-pro-6000-node", "Qwen--Qwen3-30B-A3B",
                                               ["--max-seqs", 128, "--attention-dp", 2, "--moe-ep", 2]),
}


def runs(program, data, with_tables=False):
    print("| " + ("with the card's tables" if with_tables else "vLLM run")
          + " | first token, mean | p99 | time per token, mean | p99 | end to end, mean | p99 | KV blocks |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, (device, model, options) in RUNS.items():
        folder = f"{data}/serving/vllm_runs/{name}"
        with open(f"{folder}/requests.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        with open(f"{folder}/meta.json", encoding="utf-8") as file:
            blocks = json.load(file).get("kv_cache", {}).get("num_gpu_blocks")
        first = [float(r["ttft_s"]) for r in rows]
        whole = [float(r["e2e_s"]) for r in rows]
        each = [(w - f) / (int(r["output_tokens"]) - 1) for r, w, f in zip(rows, whole, first)
                if int(r["output_tokens"]) > 1]
        # Tables of experts are of even choices.
        tables = ["--step-profile", f"{data}/serving/vllm_profiles/{name}_tp1", "--routing-skew", 0]
        # The clock of these runs starts when the engine queues a request.
        a = serve(program, [f"{data}/model_configs/{model}_config.json", "--on", device, "--requests",
                            f"{folder}/requests.csv", "--max-batched-tokens", 2048, "--set", "engine.before=0us",
                            "--set", "engine.front_end=0us", *options, *(tables if with_tables else [])])
        cells = [name]
        for key, truth in (("ttft", first), ("tpot", each), ("e2e", whole)):
            cells.append(f"{100 * (a[key]['mean_s'] / statistics.mean(truth) - 1):+.1f} %")
            cells.append(f"{100 * (a[key]['p99_s'] / quantile(truth, 0.99) - 1):+.1f} %")
        cells.append(f"{a['kv']['blocks']} of {blocks}" if blocks else str(a["kv"]["blocks"]))
        print("| " + " | ".join(cells) + " |")
    print()


TABLES = {  # VIDUR's and Frontier's, and whose they are
    "vidur/a100/Llama-2-7b-hf/mlp.csv": "a100-sxm-80gb", "vidur/a100/Llama-2-70b-hf/mlp.csv": "a100-sxm-80gb",
    "vidur/a100/CodeLlama-34b-Instruct-hf/mlp.csv": "a100-sxm-80gb",
    "vidur/a100/Meta-Llama-3-8B/mlp.csv": "a100-sxm-80gb", "vidur/a100/Meta-Llama-3-70B/mlp.csv": "a100-sxm-80gb",
    "vidur/h100/Llama-2-7b-hf/mlp.csv": "h100-sxm", "vidur/h100/Llama-2-70b-hf/mlp.csv": "h100-sxm",
    "vidur/h100/CodeLlama-34b-Instruct-hf/mlp.csv": "h100-sxm",
    "vidur/a40/Llama-2-7b-hf/mlp.csv": "a40", "vidur/a40/Llama-2-70b-hf/mlp.csv": "a40",
    "vidur/a40/CodeLlama-34b-Instruct-hf/mlp.csv": "a40",
    "frontier/a800/meta-llama/Llama-2-7b-hf/mlp.csv": "a100-sxm-80gb",
    "frontier/a800/meta-llama/Llama-2-7b-hf/attention.csv": "a100-sxm-80gb",
    "vidur/history/a100_attention_llama2-70b_tp2_e2d00e9.csv": "a100-sxm-80gb",
    "frontier/a100/mixtral_8x7b_moe/moe.csv": "a100-sxm-80gb",
}


def operators(row):
    """What a row of such a table times, as rows of `orrery kernel`: the column's name, operator and parameters."""
    ranks = int(row["num_tensor_parallel_workers"])
    if "num_experts" in row:
        yield "moe_grouped_gemm", "moe", {
            "tokens": int(row["num_tokens"]), "hidden": int(row["hidden_dim"]), "inter": int(row["expert_hidden_dim"]),
            "topk": int(row["router_topk"]), "experts": int(row["num_experts"]), "tp": ranks,
            "ep": int(row["expert_parallel_size"])}
        return
    width = int(row["n_embd"])
    heads = int(row.get("n_q_head") or row["n_head"])
    groups, head = -(-int(row["n_kv_head"]) // ranks), width // heads
    heads = -(-heads // ranks)
    if "is_prefill" in row:
        prompt = row["is_prefill"] == "True"
        batch, chunk, cached = (int(row[c]) for c in ("batch_size", "prefill_chunk_size", "kv_cache_size"))
        yield "attn_prefill" if prompt else "attn_decode", "sdpa", {
            "b": batch, "h": heads, "kv": groups, "s": chunk if prompt else 1,
            "t": cached + (chunk if prompt else 1), "d": head, "causal": prompt, "paged": True}
        return
    m, inner = int(row["num_tokens"]), int(row["n_expanded_embd"]) // ranks
    for name, n, k in (("attn_pre_proj", (heads + 2 * groups) * head, width), ("attn_post_proj", width, heads * head),
                       ("mlp_up_proj", 2 * inner, width), ("mlp_down_proj", width, inner)):
        yield name, "gemm", {"m": m, "n": n, "k": k}


def operator_tables(program, data):
    print("| table | device | operators | cases | median error | p90 | predicted / measured, median |")
    print("|---|---|---|--:|--:|--:|--:|")
    for path, device in TABLES.items():
        with open(f"{data}/serving/{path}", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        asked = [(name, float(row[f"time_stats.{name}.median"]) * 1e3, op, params)
                 for row in rows for name, op, params in operators(row)
                 if float(row[f"time_stats.{name}.median"] or 0) > 0]
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/in.csv", "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(("op", "dtype", "params"))
                writer.writerows((op, "fp16", json.dumps(params)) for _, _, op, params in asked)
            subprocess.run([program, "kernel", "--on", device, "--stack", "vllm", "--batch", f"{folder}/in.csv",
                            "--out", f"{folder}/out.csv"], check=True, capture_output=True)
            with open(f"{folder}/out.csv", encoding="utf-8") as file:
                ratios = [float(row["predicted_us"]) / measured
                          for row, (_, measured, _, _) in zip(csv.DictReader(file), asked)]
        by_name = collections.defaultdict(list)
        for (name, _, op, _), ratio in zip(asked, ratios):
            by_name["linear layers" if op == "gemm" else name].append(ratio)
        for name, of_name in by_name.items():
            errors = [abs(r - 1) for r in of_name]
            print(f"| {path.removesuffix('.csv')} | {device} | {name} | {len(errors)} | "
                  f"{percent(quantile(errors, 0.5))} | {percent(quantile(errors, 0.9))} | "
                  f"{quantile(of_name, 0.5):.2f} |")
    print()


def vidur_with_tables(program, data):
    print("| with VIDUR's tables | mean end to end | p99 | first token | time per token |\n|---|--:|--:|--:|--:|")
    tables = ["--step-profile", f"{data}/serving/vidur/a100/Llama-2-7b-hf/mlp.csv"]
    for (scheduler, count), truth in VIDUR.items():
        vidur_line(program, scheduler, count, truth, tables)
    print()


SPLITWISE = {"a100-80gb": "a100-sxm-80gb", "h100-80gb": "h100-sxm"}


def splitwise(program, data):
    """Medians of repeats: prompts of a batch in one step, then their answers' mean time per token."""
    runs_of = collections.defaultdict(list)
    with open(f"{data}/serving/splitwise_perf_model.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["model"] == "llama2-70b" and row["hardware"] in SPLITWISE:
                key = (row["hardware"], int(row["tensor_parallel"]), int(row["prompt_size"]), int(row["batch_size"]),
                       int(row["token_size"]))
                runs_of[key].append((float(row["prompt_time"]) / 1e3, float(row["token_time"]) / 1e3))

    def ask(key):
        hardware, ranks, prompt, batch, answer = key
        return serve(program, ["llama2-70b", "--on", SPLITWISE[hardware], "--tp", ranks, "--scheduler", "vllm-v0",
                               "--memory-fraction", 0.98, "--max-length", 65536, "--concurrency", batch,
                               "--count", batch, "--isl", prompt,
                               "--osl", answer, "--max-batched-tokens", max(2048, prompt * batch),
                               "--set", "engine.before=0us", "--set", "engine.front_end=0us"])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = dict(zip(runs_of, pool.map(ask, runs_of)))
    groups = collections.defaultdict(list)
    for key, repeats in runs_of.items():
        if not isinstance(answers[key], str):
            groups[key[:2]].append([answers[key][name]["mean_s"] / statistics.median(r[i] for r in repeats)
                                    for i, name in enumerate(("ttft", "tpot"))])
    print("| Splitwise, Llama-2-70B | rows | prompts: median error | p90 | predicted / measured | tokens: median error "
          "| p90 | predicted / measured |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    for (hardware, ranks), ratios in sorted(groups.items()):
        cells = [f"{hardware}, tp {ranks}", str(len(ratios))]
        for i in (0, 1):
            errors = [abs(r[i] - 1) for r in ratios]
            cells += [percent(quantile(errors, 0.5)), percent(quantile(errors, 0.9)),
                      f"{quantile([r[i] for r in ratios], 0.5):.2f}"]
        print("| " + " | ".join(cells) + " |")


ABOUT_TABLES = """Operators that VIDUR and Frontier measured, one by one, against the kernel model alone: nothing was fitted to
these tables. `--step-profile` takes them as they are. A table whose kernels are of another time or library shows
as an error too: VIDUR's prompts on A100 reach 59 TFLOP/s in attention, Frontier's 133 on a device of the same kind.
"""

ABOUT_SPLITWISE = """Splitwise's table has whole steps of Llama-2-70B: the prompts of a batch, and the mean time of a token of its
answers. It does not say which engine ran. Its token times on A100 fall from 55 to 45 ms only from two devices to
eight, as where a host sets the pace, while we predict an engine that runs graphs; nothing was fitted to it. With
two devices, prompts of 64 sequences take less time there than those of 8, so that those can hardly have run in one
step. BLOOM and the power-capped runs are left out.
"""

ABOUT = """`python3 tools/validation/serving.py build/release/orrery SHARED_DATA` prints this section alone. Step times are
those of the kernel and collective models; what engines cost beside them is in `data/serving/*.yaml`, each
constant with its source.

VIDUR's own runs (Llama-2-7B, one A100, two requests a second, seed 42) under `--engine vidur`, which counts
what VIDUR counts, with the very requests it draws (`--lengths vidur:128-512:20`):
"""

ABOUT_DEPLOYMENTS = """Those are runs of vLLM 0.19 with 300 ShareGPT requests, first predicted from the cards' descriptions, then with their
operators as measured. The blocks of the RTX 4090 are no check: what the runtime holds was set by them. The RTX 4090
takes the fit of the L40S, a board of the same chip whose memory holds check bits: what those cost is of public runs
of other boards (`data/kernels/check_bits.csv`). The cards called RTXPRO6000 are of the server edition (2,430 MHz,
1,597 GB/s) by their authors' own file (github.com/casys-kaist/LLMServingSim, profiler/perf/RTXPRO6000/
hardware.yaml), and are predicted above as the workstation edition, with a tenth more bandwidth; as
`rtx-pro-6000-server` first tokens come 24 % late, tokens 11 % and answers 14 %, for the fit over other GPUs takes
what the L40S loses to check bits for what all GDDR loses. Corrected for that, it tells the server edition to 2 % but
products of the L40S, left out, to 14.2 instead of 12.9 %, so that it is not. The same file has the collectives of
that host (`data/collectives/logs`): those of September 2026 before ACS and IOMMU were switched off are taken, as the
run with experts is of April. That the exchange of tokens lasts as long as the fullest rank's (grouped broadcasts and
reductions where parts differ), that graphs pad the others to it, and that experts' numbers and weights travel too is
of vLLM's code; these were looked for because that run was predicted too fast, so that it is no independent check of
them. Its queue hangs on a few per cent of speed, and first tokens with it. How long steps wait for their longest
sequence was worked out with these three runs in view as well.

1,106 deployments that aiconfigurator's authors collected (closed loop, mean of all requests, ten requests a
user), told to run as their public scripts say: rows of aiconfigurator's own evaluation by its generator's rules
(tokens of a step, 8-bit keys and values, mixed chunks), those of InferenceX by its launch scripts (tokens of a
step, polling, waiting, memory), which also draw lengths between 0.8 and 1 of the stated ones. `own_settings` and
`inferencex_settings` in the script list what was taken from where. Of the recipes of disaggregated rows and of racks
8-bit keys and values and the interval of streaming are taken, and of TensorRT-LLM's a factor of 0.85 on kernels
(`EARLY_KERNELS`), which is fitted. Nothing was fitted to the second half, but it is not unseen: the skew of routing
(1.2) and the time of a front end were chosen with the whole table in view, and that long steps run at the clock their
power allows was seen to help rows of both halves, though its constant is of a measurement of our own; that Kimi-K2.5 has four bits in its experts alone was noticed with all its five rows on H200 in view. But for
that, since then the first half alone was looked at: gaps, kernels launched one by one, SGLang's and TensorRT-LLM's
time before the queue, what hosts cost for each sequence and to hand out its tokens, how often guesses of DeepSeek-R1 are right, the
kernels of TensorRT-LLM on racks and the spreads are of that half. Errors on deployments never seen may be larger.

What public scripts explain: aiconfigurator's runs of vLLM with prompts of whole thousands repeat a hundred prompts,
which vLLM caches (`repeats_prompts`); where the table leaves the ranks of data-parallel attention out, the experts'
layout tells them; DeepSeek-R1 under TensorRT-LLM on H200 guesses ahead (`guesses_ahead`). gpt-oss under vLLM on H100
with 512 users is refused: its script gave that number to the client alone, and how many sequences the engine ran is
not in the table (`users_unknown`).

What still fails together, and is not explained: Qwen3-235B under vLLM on H200 has first tokens as predicted, but
takes twice as long for each token as predicted, nearly the same at any batch and less the more devices share the
experts, as if all of them were read in every step; prompts of 8,192 tokens of gpt-oss take two thirds longer under
vLLM than predicted, those of 1,024 do not; the first tokens of DeepSeek models come 0.2 s late however
short the prompt; Llama-3.1-70B under TensorRT-LLM on H200 and DeepSeek-V3 under SGLang on GB200 and GB300 are
predicted too slow; Qwen3-32B on GB200 took five times as long as predicted; with 8 users first tokens of
Llama-3.1-8B under TensorRT-LLM come late by a share of an answer's time, as if requests of a warm-up still ran.
"""


def section(program, data):
    print("## Serving\n")
    print(ABOUT)
    vidur(program)
    print()
    vidur_with_tables(program, data)
    runs(program, data)
    runs(program, data, with_tables=True)
    print(ABOUT_DEPLOYMENTS)
    deployments(program, data)
    print(ABOUT_TABLES)
    operator_tables(program, data)
    print(ABOUT_SPLITWISE)
    splitwise(program, data)


def main():
    program, data = sys.argv[1:3]
    if sys.argv[3:4] == ["--records"]:
        write_records(program, data, sys.argv[4])
        return
    section(program, data)


if __name__ == "__main__":
    main()
