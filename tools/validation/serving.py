"""Measured deployments against `orrery serving`, for docs/validation.md.

  python3 tools/validation/serving.py build/release/orrery SHARED_DATA

Prints the section "Serving". Deployments of serving/silicon_points.csv are split by a hash of their
id: constants of data/serving/*.yaml were fitted to the first half where they were fitted at all.
"""

import collections
import concurrent.futures
import csv
import json
import statistics
import subprocess
import sys

SYSTEMS = {"h100_sxm": "h100-sxm", "h200_sxm": "h200", "b300_sxm": "b300", "gb200": "gb200", "gb300": "gb300"}
FORMATS = {"": None, "fp8": "fp8", "nvfp4": "fp4", "fp8_block": "fp8_block", "int4_wo": "int4_weight"}
SCHEDULERS = {"vllm": "vllm-v1", "sglang": "sglang", "trtllm": "trtllm"}
# Runs of aiconfigurator's own evaluation; the others are of InferenceX (SemiAnalysis), which draws each length
# between 0.8 and 1 of the given one.
OWN_RUNS = ("meta_llama", "nvidia_", "openai_", "qwen_")


def own_settings(row, isl):
    """What aiconfigurator's generator tells an engine (its rule_plugin/benchmark): steps of the batch, a prompt and
    1,500 tokens more; keys and values in eight bits with weights in eight bits under TensorRT-LLM; SGLang with
    mixed chunks, but not in the first runs, which agree with its defaults; vLLM 0.12 without asynchronous scheduling, as was its default."""
    tokens = isl + 1500
    if row["backend"] == "sglang":
        return [] if row["backend_version"] < "0.5.6" else ["--max-batched-tokens", tokens, "--mixed-chunk"]
    settings = ["--max-batched-tokens", tokens + number(row["batch_size"]), "--no-prefix-caching"]
    if row["backend"] == "vllm":
        settings += ["--no-async"]
    elif row["gemm_quant_mode"].startswith("fp8"):
        settings += ["--kv-dtype", "fp8"]
    return settings


def inferencex_settings(row, isl, osl, users):
    """What its launch scripts say (benchmarks/ of SemiAnalysisAI/InferenceX); where one has changed over time, what
    it said around the time of most rows."""
    model, system, backend = row["model_path"], row["system"], row["backend"]
    eight_bits = ["--kv-dtype", "fp8"]
    if row["mode"] != "agg" or system.startswith("gb"):  # recipes of their own, not looked at
        return [] if backend == "vllm" else eight_bits
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
        if "Qwen3.5" in model and row["precision"] == "fp8":
            polls = ["--poll-steps", 10] if system == "b300_sxm" else []
            return ["--max-batched-tokens", 16384, "--chunk-size", 16384, *polls, *eight_bits, "--memory-fraction", 0.8]
        if "GLM" in model and system == "h200_sxm":
            return ["--memory-fraction", 0.85]
        if "GLM" in model or system == "h200_sxm":
            polls = []
        kv = [] if system == "h200_sxm" or row["precision"] == "bf16" else eight_bits
        return ["--max-batched-tokens", 32768, "--chunk-size", 32768, *polls, *kv, "--memory-fraction", 0.82]
    if "gpt-oss" in model:
        return ["--max-batched-tokens", 20000, "--max-seqs", users]
    if "Llama" in model:
        waits = ["--wait-steps", 20, "--wait-share", 0.9] if (isl, osl) == (1024, 1024) and int(row["tp_size"]) < 8 else []
        return ["--max-batched-tokens", max(isl + osl + 200, 2048), *eight_bits, *waits]
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
    if sizes["tp"] * sizes["attention_dp"] % sizes["moe_ep"] != 0:
        sizes["moe_ep"] = 1
    return [word for name, size in sizes.items() for word in (option + name.replace("_", "-"), size)]


def deployment(program, data, row):
    isl, osl = int(row["isl"]), int(row["osl"])
    own = row["id"].startswith(OWN_RUNS)
    length = str if own else lambda n: f"uniform:{int(0.8 * n)}-{n}"
    users = number(row["concurrency"])
    arguments = [f"{data}/model_configs/{row['config']}", "--on", SYSTEMS[row["system"]], "--scheduler",
                 SCHEDULERS[row["backend"]], "--concurrency", users, "--count",
                 min(10 * users, max(2 * users, 4000)), "--isl", length(isl), "--osl", length(osl)]
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


def deployments(program, data):
    with open(f"{data}/serving/silicon_points.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda row: deployment(program, data, row), rows))
    groups, halves, refused = collections.defaultdict(list), ([], []), []
    for row, answer in zip(rows, answers):
        if isinstance(answer, str):
            refused.append((row["id"], answer))
            continue
        errors = []
        for name, column in (("tpot", "silicon_tpot_ms"), ("ttft", "silicon_ttft_ms")):
            measured = float(row[column]) / 1e3
            low, high = answer[name]["model_interval"]["mean_s"]
            errors.append((answer[name]["mean_s"] / measured - 1, low <= measured <= high,
                           answer[name]["mean_s"], measured))
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
          f"{statistics.median(ranked):.3f}, lowest {min(ranked):.3f}. {len(refused)} were refused: their weights do "
          f"not fit the devices that the table gives.\n")


VIDUR = {("vllm-v0", 200): (0.177, 0.314, 0.027, 0.0093), ("sarathi", 50): (0.158, 0.262, 0.025, 0.0090)}


def vidur(program):
    print("| VIDUR's run | mean end to end | p99 | first token | time per token |\n|---|--:|--:|--:|--:|")
    for (scheduler, count), truth in VIDUR.items():
        a = serve(program, ["llama2-7b", "--on", "a100-sxm-80gb", "--engine", "vidur", "--scheduler", scheduler,
                            "--rate", 2, "--count", count, "--lengths", "vidur:128-512:20"])
        ours = (a["e2e"]["mean_s"], a["e2e"]["p99_s"], a["ttft"]["mean_s"], a["vidur_tpot"]["mean_s"])
        print(f"| {scheduler}, {count} requests | "
              + " | ".join(f"{100 * (x / y - 1):+.1f} %" for x, y in zip(ours, truth)) + " |")


RUNS = {
    "RTX4090_Llama-3.1-8B": ("rtx-4090", "meta-llama--Meta-Llama-3.1-8B", ["--max-seqs", 256]),
    "RTXPRO6000_Llama-3.1-8B": ("rtx-pro-6000", "meta-llama--Meta-Llama-3.1-8B", ["--max-seqs", 128]),
    "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507": ("rtx-pro-6000-node", "Qwen--Qwen3-30B-A3B",
                                               ["--max-seqs", 128, "--attention-dp", 2, "--moe-ep", 2]),
}


def runs(program, data):
    print("\n| vLLM run | first token, mean | p99 | time per token, mean | p99 | end to end, mean | p99 | KV blocks |")
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
        # The clock of these runs starts when the engine queues a request.
        a = serve(program, [f"{data}/model_configs/{model}_config.json", "--on", device, "--requests",
                            f"{folder}/requests.csv", "--max-batched-tokens", 2048, "--set", "engine.before=0us",
                            "--set", "engine.front_end=0us", *options])
        cells = [name]
        for key, truth in (("ttft", first), ("tpot", each), ("e2e", whole)):
            cells.append(f"{100 * (a[key]['mean_s'] / statistics.mean(truth) - 1):+.1f} %")
            cells.append(f"{100 * (a[key]['p99_s'] / quantile(truth, 0.99) - 1):+.1f} %")
        cells.append(f"{a['kv']['blocks']} of {blocks}" if blocks else str(a["kv"]["blocks"]))
        print("| " + " | ".join(cells) + " |")
    print()


ABOUT = """`python3 tools/validation/serving.py build/release/orrery SHARED_DATA` prints this section. Step times are
those of the kernel and collective models; what engines cost beside them is in `data/serving/*.yaml`, each
constant with its source.

VIDUR's own runs (Llama-2-7B, one A100, two requests a second, seed 42) under `--engine vidur`, which counts
what VIDUR counts, with the very requests it draws (`--lengths vidur:128-512:20`):
"""

ABOUT_DEPLOYMENTS = """Those are runs of vLLM 0.19 with 300 ShareGPT requests, predicted from the cards' descriptions. The blocks of
the RTX 4090 are no check: what the runtime holds was set by them. That run is missed mostly by products of a card
never measured: its linear layers are predicted a fifth too long (measured ones are in the same source). The run
with experts has collectives over PCIe that were not measured, and its queue hangs on a few per cent of speed.

1,106 deployments that aiconfigurator's authors collected (closed loop, mean of all requests), with the engines'
own defaults. Nothing was fitted to the second half, but it is not unseen: the skew of routing (1.2), vLLM's
budget of 2,048 tokens, the full clock, the times of a front end and of a host for each sequence were chosen with
the whole table in view, so errors on deployments never seen may be larger. Rows of InferenceMAX draw lengths
between 0.8 and 1 of the stated ones, ten requests a user (its README); the others are taken as of one length.

What fails together, and what may lie behind it, none of it checked: "aggregated" DeepSeek-R1 on 12 to 72 devices
of a GB200 rack may be pools whose sizes the table does not give; Llama-3.1-8B under vLLM on H200 would need three
quarters of the device's 8-bit peak for prompts alone, so some may have been cached; DeepSeek-R1 under
TensorRT-LLM on H200 and the disaggregated rows are predicted too slow; first tokens of SGLang and TensorRT-LLM
come up to 0.3 s later than predicted.
"""


def main():
    program, data = sys.argv[1:3]
    print("## Serving\n")
    print(ABOUT)
    vidur(program)
    runs(program, data)
    print(ABOUT_DEPLOYMENTS)
    deployments(program, data)


if __name__ == "__main__":
    main()
