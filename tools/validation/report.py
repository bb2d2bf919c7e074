#!/usr/bin/env python3
"""Writes docs/validation.md: every shipped fit against measurements it has not seen.

  python3 tools/validation/report.py build/release/orrery [SHARED_DATA] > docs/validation.md
  python3 tools/validation/report.py build/release/orrery SHARED_DATA training
  python3 tools/validation/report.py build/release/orrery SHARED_DATA models

SHARED_DATA (../shared/data) holds the measured tables; they are not part of the project. With
`training` or `models` only that section is printed.
"""
import csv
import gzip
import hashlib
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import neusight_models
import serving
import torch_kernels

SILICON = [("a100-sxm-80gb", "a100_sxm"), ("h100-sxm", "h100_sxm"), ("h200", "h200_sxm"), ("l40s", "l40s")]
TABLES = [("gemm", "GEMM"), ("context_attention", "attention, prefill"), ("generation_attention", "attention, decode"),
          ("moe", "mixture of experts")]
FEW = 50
# Mean errors that NeuSight published, in per cent: on GPUs trained on, on others.
NEUSIGHT = [("linear", ("20.0 %", "13.9 %")), ("bmm", ("26.0 %", "13.8 %")), ("elem", ("14.0 %", "19.3 %")),
            ("softmax", ("19.3 %", "13.9 %")), ("ln", ("20.1 %", "56.7 %")),
            *((f"amd_{kind}_AMD_Instinct_{gpu}", ("", "")) for kind in ("linear", "bmm") for gpu in ("MI100", "MI210"))]
NEUSIGHT_GPUS = {"NVIDIA A100 80GB PCIe": "a100-pcie-80gb", "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
                 "Tesla V100-PCIE-32GB": "v100-pcie-32gb", "Tesla T4": "t4", "Tesla P100-PCIE-16GB": "p100",
                 "Tesla P4": "p4", "AMD Instinct MI100": "mi100", "AMD Instinct MI210": "mi210"}
SHORT_HEAD = ("| {first} | rows | MAPE | median | p90 | inside 90 % | {last} |\n"
              "|---|--:|--:|--:|--:|--:|--:|")
HEAD = ("| {first} | rows | MAPE | median | p90 | worst | Spearman | inside 90 % | p | ± half | score | roofline MAPE |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")


def validate(program, *arguments):
    run = subprocess.run([program, "validate", *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def calibrate(program, *arguments):
    run = subprocess.run([program, "calibrate", *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def percent(x):
    return f"{100 * x:.1f} %"


def row(name, a, roofline):
    return (f"| {name} | {a['rows']} | {percent(a['mean_error'])} | {percent(a['median_error'])} | "
            f"{percent(a['p90_error'])} | {percent(a['worst_error'])} | {a['spearman']:.3f} | {percent(a['coverage'])} | "
            f"{a['coverage_p']:.2f} | {percent(a['median_half_width'])} | "
            f"{a['interval_score'] / a['constant_interval_score']:.2f} | {percent(roofline['mean_error'])} |")


def short_row(name, a, beside):
    return (f"| {name} | {a['rows']} | {percent(a['mean_error'])} | {percent(a['median_error'])} | "
            f"{percent(a['p90_error'])} | {percent(a['coverage'])} | {beside} |")


def by_family(answer):
    tile, roofline = answer["models"][0], answer["models"][1]
    beside = {f["name"]: f for f in roofline["by_family"]}
    lines = [row(f["name"], f, beside[f["name"]]) for f in tile["by_family"]]
    return "\n".join(lines + [row("**all**", tile["all"], roofline["all"])])


def worst(answer, count=6):
    lines = ["| line | operator | measured | predicted |", "|--:|---|--:|--:|"]
    for w in answer["worst"][:count]:
        lines.append(f"| {w['line']} | {w['operator']} | {w['measured_us']:.2f} µs | {w['predicted_us']:.2f} µs |")
    return "\n".join(lines)


def split(table, folder, wanted):
    """FEW rows that a hash of the line chooses, and the rest, as tables of their own."""
    with open(table, encoding="utf-8", newline="") as file:
        head, *lines = file.read().splitlines(keepends=True)
    lines = [line for line in lines if wanted in line]
    lines.sort(key=lambda line: hashlib.sha256(line.encode()).digest())
    paths = folder / "few.csv", folder / "rest.csv"
    for path, part in zip(paths, (lines[:FEW], lines[FEW:])):
        path.write_text(head + "".join(part), encoding="utf-8")
    return map(str, paths)


def wider_than_fitted(program, silicon, folder):
    print(SHORT_HEAD.format(first="device", last="worst"))
    for device, prefix in SILICON:
        with open(f"{silicon}/{prefix}_gemm.csv", encoding="utf-8", newline="") as file:
            head, *lines = file.read().splitlines(keepends=True)
        columns = head.rstrip().split(",").index("n")
        for name, part in (("narrow", lambda n: n <= 8192), ("wide", lambda n: n > 8192)):
            (folder / f"{name}.csv").write_text(
                head + "".join(line for line in lines if part(int(line.split(",")[columns]))), encoding="utf-8")
        fit = str(folder / "fit.json")
        calibrate(program, device, "--from", str(folder / "narrow.csv"), "--stack", "vllm", "--out", fit)
        a = validate(program, str(folder / "wide.csv"), "--on", device, "--stack", "vllm", "--kernel-model", "tile",
                     "--fit", fit)["models"][0]["all"]
        print(short_row(device, a, percent(a["worst_error"])))


def power(program):
    """What the accuracy tests print of power, in their own words."""
    test = pathlib.Path(program).parent / "tests" / "accuracy_test"
    run = subprocess.run([test, "--gtest_filter=PowerAccuracy.*"], check=True, capture_output=True, text=True)
    for line in run.stdout.splitlines():
        if "%" in line and not line.startswith("["):
            print(f"- {line}")


def unseen_gpus(program, silicon, folder):
    for left, _ in SILICON:
        prior = folder / "prior.json"
        tables = [f"{device}={silicon}/{prefix}_{table}.csv" for device, prefix in SILICON if device != left
                  for table, _ in TABLES[:3]]
        calibrate(program, "generic", *(part for table in tables for part in ("--from", table)), "--stack", "vllm",
                  "--out", str(prior))
        for table, name in TABLES[:3]:
            few, rest = split(f"{silicon}/{dict(SILICON)[left]}_{table}.csv", folder, "bfloat16")
            fit = str(folder / "fit.json")
            here = "--on", left, "--stack", "vllm", "--kernel-model", "tile"
            unseen = validate(program, rest, *here, "--fit", str(prior))["models"][0]["all"]
            calibrate(program, left, "--from", few, "--stack", "vllm", "--prior", str(prior), "--out", fit)
            known = validate(program, rest, *here, "--fit", fit)["models"][0]["all"]
            print(short_row(f"{left}, {name}", unseen, f"{percent(unseen['median_half_width'])} | "
                            f"{percent(known['mean_error'])} ({percent(known['coverage'])})"))


def neusight(program, tables):
    root = pathlib.Path(__file__).parents[2]
    fit = str(root / "data/kernels/a100-pcie-40gb+a100-pcie-80gb+p100+p4+t4+v100-pcie-32gb.torch.json")
    for kind, published in NEUSIGHT:
        path = f"{tables}/test_{kind}.csv" if not kind.startswith("amd") else f"{tables}/{kind}.csv"
        with open(path, encoding="utf-8", newline="") as file:
            devices = sorted({NEUSIGHT_GPUS[row["device"]] for row in csv.DictReader(file)})
        for device in devices:
            a = validate(program, path, "--on", device, "--kernel-model", "tile", "--fit", fit)["models"][0]["all"]
            print(short_row(f"{kind.split('_AMD')[0]}, {device}", a, published[device == "a100-pcie-80gb"]))


def predict(program, file, *arguments):
    run = subprocess.run([program, "predict", file, *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def error(predicted, measured):
    return f"{100 * (predicted / measured - 1):+.1f} %"


PROGRAM_HEAD = ("| program | step, measured | step | single call | peak memory | energy | inside 90 % |\n"
                "|---|--:|--:|--:|--:|--:|--:|")


def program_row(case, answer, tally):
    measured = {k: float(v) for k, v in case.items() if k not in ("case", "") and v}
    step, low, high = (answer[k] * 1e6 for k in ("latency_s", "latency_low_s", "latency_high_s"))
    inside = low <= measured["pipe_us"] <= high
    pairs = [(step, measured["pipe_us"]), (answer["single_call_s"] * 1e6, measured["sync_us"]),
             (answer["memory"]["peak_bytes"], measured["peak_bytes"]), (answer["energy_j"] * 1e3, measured["energy_mj"])]
    for total, (p, m) in zip(tally["errors"], pairs):
        total.append(abs(p / m - 1))
    tally["inside"].append(inside)
    tally["half"].append((high - low) / 2 / step)
    print(f"| {case['case']} | {measured['pipe_us']:,.0f} µs | " + " | ".join(error(p, m) for p, m in pairs)
          + f" | {'yes' if inside else 'no'} |")


def program_sums(name, tally):
    cells = [f"{percent(statistics.mean(e))}, worst {percent(max(e))}" for e in tally["errors"]]
    print(f"| **{name}** | | " + " | ".join(cells) + f" | {sum(tally['inside'])} of {len(tally['inside'])}, "
          f"± {percent(statistics.median(tally['half']))} |")


def new_tally():
    return {"errors": [[], [], [], []], "inside": [], "half": []}


SAMPLE_KINDS = ["prefill", "decode", "experts", "encoder", "dit", "unet", "bottleneck", "inverted", "next", "train"]


def drawn(samples, answers):
    """Programs drawn at random, by kind."""
    print(DRAWN_PROGRAMS)
    print("| kind | programs | step: mean | worst | kernels: mean | peak memory: mean | worst | energy: mean | inside 90 % |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|--:|")

    def kind_of(case):
        return "train" if case.endswith("_train") else case.split("_")[2]
    for kind in [*SAMPLE_KINDS, "all"]:
        errors, inside = [], 0
        for case in samples:
            if kind not in ("all", kind_of(case["case"])):
                continue
            a = answers[case["case"]]
            pairs = [(a["latency_s"] * 1e6, case["pipe_us"]), (a["composition"]["kernels_s"] * 1e6, case["busy_us"]),
                     (a["memory"]["peak_bytes"], case["peak_bytes"]), (a["energy_j"] * 1e3, case["energy_mj"])]
            errors.append([abs(p / float(m) - 1) for p, m in pairs])
            inside += a["latency_low_s"] * 1e6 <= float(case["pipe_us"]) <= a["latency_high_s"] * 1e6
        step, kernels, memory, energy = zip(*errors)
        name = kind if kind != "all" else "**all**"
        print(f"| {name} | {len(errors)} | {percent(statistics.mean(step))} | {percent(max(step))} |"
              f" {percent(statistics.mean(kernels))} | {percent(statistics.mean(memory))} | {percent(max(memory))} |"
              f" {percent(statistics.mean(energy))} | {inside} |")


def programs(program, data):
    """The reference table with the shipped fit, our own programs with fits that have not seen them."""
    print(PROGRAM_HEAD)
    tally = new_tally()
    with open(f"{data}/h200/jax_models.csv", newline="") as file:
        for case in csv.DictReader(file):
            program_row(case, predict(program, f"{data}/h200/stablehlo/{case['case']}.mlir", "--on", "h200"), tally)
    program_sums("all", tally)
    print(OWN_PROGRAMS)
    print(PROGRAM_HEAD)
    with open("data/measured/h200_jax_models.csv", newline="") as file:
        cases = list(csv.DictReader(file))
    with open("data/measured/h200_jax_samples.csv", newline="") as file:
        samples = list(csv.DictReader(file))
    with gzip.open("data/measured/h200_xla_kernels.csv.gz", "rt") as file:
        head, *rows = file.read().splitlines(keepends=True)
    own, gaps = new_tally(), []
    with tempfile.TemporaryDirectory() as folder:
        answers = {}
        for part in range(5):
            held = {c["case"] for c in cases + samples if hashlib.sha256(c["case"].encode()).digest()[0] % 5 == part}
            table, fit = f"{folder}/rows.csv", f"{folder}/fit.json"
            with open(table, "w", encoding="utf-8") as sink:
                sink.write(head + "".join(r for r in rows if r.rstrip().rsplit(",", 1)[1] not in held))
            calibrate(program, "h200", "--from", table, "--stack", "xla", "--prior", "none", "--out", fit)
            for case in held:
                answers[case] = predict(program, f"tests/accuracy/programs/{case}.mlir.gz", "--on", "h200", "--fit", fit)
        for case in cases:
            answer = answers[case["case"]]
            program_row(case, answer, own)
            step, busy = float(case["pipe_us"]), float(case["busy_us"])
            if busy >= 0.85 * step:
                gaps.append((case["case"], step / busy - 1, answer["composition"]["gamma"],
                             step / (answer["composition"]["kernels_s"] * 1e6) - 1))
    program_sums("all", own)
    drawn(samples, answers)
    inside, count = sum(own["inside"]) + sum(tally["inside"]), len(own["inside"]) + len(tally["inside"])
    near = sum(abs(math.log1p(p) - math.log1p(m)) <= 0.1 for _, m, p, _ in gaps)
    print(f"""
Both tables together: {inside} of {count} steps lie inside their 90 % interval, whose half-width is
{percent(statistics.median(own['half'] + tally['half']))} in the median.

### The composition gap

γ = (step − kernels) / kernels ([error_composition.md](error_composition.md)) of our programs that the
device sets the pace of: measured, predicted, and measured steps over predicted kernels. Within
0.1 in ln(1 + γ) on {near} of {len(gaps)}; the last is {statistics.median(abs(g[3]) for g in gaps):.3f} in the median.
The two others, `decoder_05b_b1_c512_decode` and `vit_b16_b1_infer`, are predicted to wait for the slower
host of the constants, which they did not on ours.

| program | measured | predicted | mixed |
|---|--:|--:|--:|""")
    for name, measured, predicted, mixed in gaps:
        print(f"| {name} | {measured:+.3f} | {predicted:+.3f} | {mixed:+.3f} |")


CONFIGS = "tests/accuracy/configs"
# Measured under torch.compile: model, phase, batch, length, and whether constants were taken from it.
COMPILED = {
    "resnet18_b64_infer": ("resnet-18", "forward", 64, 0, True),
    "resnet50_b8_infer": ("resnet-50", "forward", 8, 0, False),
    "resnet50_b128_infer": ("resnet-50", "forward", 128, 0, False),
    "resnet50_b64_train": ("resnet-50", "train", 64, 0, True),
    "mobilenet_v2_b32_infer": ("mobilenet-v2", "forward", 32, 0, False),
    "vit_b_16_b32_infer": ("vit-b-16", "forward", 32, 0, False),
    "bert_base_b8_s128_infer": ("bert-base", "forward", 8, 128, False),
    "bert_large_b16_s256_infer": ("bert-large", "forward", 16, 256, True),
    "gpt2_b1_s128_infer": ("gpt2", "forward", 1, 128, True),
    "gpt2_b8_s1024_infer": ("gpt2", "forward", 8, 1024, True),
    "llama3_8b_4l_b1_s128_prefill": (f"{CONFIGS}/llama3_8b_4l.json", "prefill", 1, 128, False),
    "llama3_8b_4l_b2_s1024_prefill": (f"{CONFIGS}/llama3_8b_4l.json", "prefill", 2, 1024, False),
    "llama3_8b_4l_b8_c512_decode": (f"{CONFIGS}/llama3_8b_4l.json", "decode", 8, 513, False),
    "opt_6l_b2_s512_infer": (f"{CONFIGS}/opt_6l.json", "forward", 2, 512, True),
    "bert_base_b8_s128_fp32_infer": ("bert-base", "forward", 8, 128, True),
}


def sized(phase, batch, length):
    size = ["--context" if phase == "decode" else "--seq", str(length)] if length else []
    return ["--phase", phase, "--batch", str(batch), *size]


def compiled(program):
    """Models under torch.compile: those that constants were taken from, then those that check them."""
    print("| model, mode | kernels, measured | kernels | their time, measured | their time | step, measured | step |\n"
          "|---|--:|--:|--:|--:|--:|--:|")
    with open("data/measured/h200_torch_compile.csv", newline="") as file:
        cases = [c for c in csv.DictReader(file) if c["case"] in COMPILED]
    for fitted in (True, False):
        errors = [[], [], []]
        for case in cases:
            model, phase, batch, length, is_fitted = COMPILED[case["case"]]
            if is_fitted != fitted:
                continue
            narrow = ["--dtype", "fp32"] if "fp32" in case["case"] else []
            a = predict(program, model, "--on", "h200", "--stack", "torch-compile", "--set",
                        f"stack.mode={case['mode']}", *sized(phase, batch, length), *narrow)
            pairs = [(a["launches"], float(case["kernels"])),
                     (a["composition"]["kernels_s"] * 1e6, float(case["kernel_sum_us"])),
                     (a["latency_s"] * 1e6, float(case["step_us"]))]
            for total, (p, m) in zip(errors, pairs):
                total.append(abs(p / m - 1))
            print(f"| {case['case']}, {case['mode']} | {case['kernels']} | {error(*pairs[0])} | {pairs[1][1]:,.0f} µs |"
                  f" {error(*pairs[1])} | {pairs[2][1]:,.0f} µs | {error(*pairs[2])} |")
        means = [percent(statistics.mean(e)) for e in errors]
        print(f"| **{'taken from' if fitted else 'checked with'}** | | {means[0]} | | {means[1]} | | {means[2]} |")


def decode_seconds(folder):
    """Of a run of vLLM, the seconds in which no prompt was read: requests that run, their mean
    context, seconds a step."""
    def read(name):
        with open(f"{folder}/{name}.csv", newline="") as file:
            return [{k: float(v) for k, v in r.items()} for r in csv.DictReader(file)]

    requests, seconds = read("requests"), read("timeseries")
    for before, second in zip(seconds, seconds[1:]):
        if before["prompt_throughput"] or second["prompt_throughput"] or second["waiting"] \
                or second["gen_throughput"] <= 0:
            continue
        running = context = 0
        for sample in range(10):
            now = second["t"] - 1 + sample / 10
            for r in requests:
                begin, end = r["arrival_s"] + r["ttft_s"], r["arrival_s"] + r["e2e_s"]
                if begin <= now < end:
                    running += 0.1
                    context += 0.1 * (r["input_tokens"] + r["output_tokens"] * (now - begin) / (end - begin))
        if running >= 2:  # the run ends in the seconds with fewer
            yield running, context / running, running / second["gen_throughput"]


def vllm_runs(program, data):
    print("| GPU | requests | mean context | step, measured | step | inside 90 % |\n|---|--:|--:|--:|--:|--:|")
    for run, device in (("RTXPRO6000_Llama-3.1-8B", "rtx-pro-6000"), ("RTX4090_Llama-3.1-8B", "rtx-4090")):
        errors, inside = [], []
        for running, context, step in decode_seconds(f"{data}/serving/vllm_runs/{run}"):
            a = predict(program, "llama3-8b", "--on", device, "--stack", "vllm",
                        *sized("decode", round(running), round(context)))
            errors.append(a["latency_s"] / step - 1)
            inside.append(a["latency_low_s"] <= step <= a["latency_high_s"])
            if len(errors) % 3 == 1:
                print(f"| {device} | {running:.0f} | {context:.0f} | {step * 1e3:.1f} ms | {100 * errors[-1]:+.1f} % |"
                      f" {'yes' if inside[-1] else 'no'} |")
        print(f"| **{device}, all {len(errors)}** | | | | {100 * statistics.mean(errors):+.1f} %, either way "
              f"{percent(statistics.mean(map(abs, errors)))} | {sum(inside)} of {len(inside)} |")


def vllm_deployments(program, data):
    models = {"meta-llama/Llama-3.1-70B": ["--dtype", "fp8"], "openai/gpt-oss-120b": [], "MiniMaxAI/MiniMax-M2.5": []}
    devices = {"h200_sxm": "h200", "b300_sxm": "b300"}
    print("| model, GPU | prompt, answer | requests | TPOT, measured | decode alone | TPOT |\n|---|--:|--:|--:|--:|--:|")
    with open(f"{data}/serving/silicon_points.csv", newline="") as file:
        points = list(csv.DictReader(file))
    for name, options in models.items():
        errors = []
        for p in points:
            single = all(p[k] in ("", "1") for k in ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size",
                                                     "moe_ep_size"))
            if p["model_path"] != name or p["backend"] != "vllm" or p["mode"] != "agg" or not single \
                    or float(p["silicon_ttft_ms"]) > 20e3 or (name.startswith("MiniMax") and p["precision"] != "fp8"):
                continue
            on = [f"{data}/model_configs/{p['config']}", "--on", devices[p["system"]], "--stack", "vllm", *options]
            isl, osl, concurrency = int(p["isl"]), int(p["osl"]), int(p["concurrency"])
            decode = predict(program, *on, *sized("decode", concurrency, isl + osl // 2))["latency_s"]
            prefill = predict(program, *on, *sized("prefill", 1, isl))["latency_s"]
            truth, tpot = float(p["silicon_tpot_ms"]) / 1e3, decode + (concurrency - 1) * prefill / osl
            errors.append(tpot / truth - 1)
            print(f"| {name.split('/')[1]}, {devices[p['system']]} | {isl}, {osl} | {concurrency} | {truth * 1e3:.1f} ms |"
                  f" {error(decode, truth)} | {error(tpot, truth)} |")
        print(f"| **{name.split('/')[1]}, all {len(errors)}** | | | | | {100 * statistics.mean(errors):+.1f} %, either way "
              f"{percent(statistics.mean(map(abs, errors)))} |")


TORCH_MODELS = """
## H200, PyTorch: whole models

The models of `h200/torch_models.csv` from their descriptions, with `data/kernels/h200.torch.json`: the sum and the
number of kernels that a profiler saw, steps run eagerly and as a CUDA graph, and γ = step / kernels − 1 of the
eager step, measured and predicted. Of the eager step's error, the last columns are the kernels' share of it and
that of everything else (launches that wait for the host, gaps): both over the measured step, they add up.
Eager steps lie inside their 90 % interval in 8 of 10, graphs in 6 of 6; the width that kernels timed by counted
clocks have was set with these rows in view (`kernel/unmeasured.h`), so that this is no independent check.
"""

TORCH_MODELS_AFTER = """
The kernels' part of an eager step's error is 4.5 % at most; all of what is large is the host's. Its time a kernel
is one constant for torchvision's models and one for those of Transformers (`data/stacks/torch-eager.yaml`), but
differs from run to run: ResNet-50 took 13 µs a kernel with a batch of 1 and 28 µs with one of 32, though the
host does the same in both, BERT with a batch of 1 69 µs. CUDA graphs, which have no host, show what is left without it."""

OPTIMISED_HLO = """
## Optimised HLO and the module it came from

Ten programs of `tests/accuracy/programs` were kept as XLA compiled them. From that, lowering has nothing to
decide; the difference to the step predicted from the StableHLO is what it decides otherwise. The largest is
that of a decode whose caches XLA rearranges by kernels of its own (`decoder_13b_4l_b32_c512_decode`).
"""

NEUSIGHT_MODELS = """
## NeuSight's models

Whole models of `gpu/neusight/models_e2e.csv`: fp32 in PyTorch, attention written out, forward or forward and
backward, eager or with torch.compile, on one GPU; its rows of several GPUs are left out. Kernels are fitted to
operators of NeuSight's tables, nothing to a model. The sizes of its Switch
Transformer, which the table does not tell, are those that fit its parameters and its work.
"""


def torch_models(program, data):
    print(TORCH_MODELS)
    print("| model | eager, measured | kernels | launches | eager | graph | γ, measured | predicted | error by kernels | "
          "by the rest |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    errors, gammas = {k: [] for k in ("kernels", "launches", "eager", "graph")}, []
    with open(f"{data}/h200/torch_models.csv", newline="") as file:
        cases = list(csv.DictReader(file))
    for case in cases:
        eager, _ = torch_kernels.predicted(program, case["case"], None, "torch-eager", [])
        graph, _ = torch_kernels.predicted(program, case["case"], None, "cuda-graph", [])
        step, kernels = float(case["eager_us"]), float(case["kernel_sum_us"])
        ours, sum_ = eager["latency_s"] * 1e6, eager["composition"]["kernels_s"] * 1e6
        found = {"kernels": sum_ / kernels, "launches": eager["launches"] / float(case["kernels"]), "eager": ours / step}
        if case["graph_us"]:
            found["graph"] = graph["latency_s"] * 1e6 / float(case["graph_us"])
        for key, ratio in found.items():
            errors[key].append(abs(ratio - 1))
        gamma = step / kernels - 1
        gammas.append(abs(eager["composition"]["gamma"] - gamma))
        signed = [f"{100 * (found[k] - 1):+.1f} %" if k in found else "" for k in errors]
        print(f"| {case['case']} | {step:,.0f} µs | {' | '.join(signed)} | {gamma:.2f} | "
              f"{eager['composition']['gamma']:.2f} | {100 * (sum_ - kernels) / step:+.1f} % | {100 * ((ours - sum_) - (step - kernels)) / step:+.1f} % |")
    means = " | ".join(f"{percent(statistics.mean(v))}, worst {percent(max(v))}" for v in errors.values())
    print(f"| **all** | | {means} | | off by {statistics.median(gammas):.2f} in the median | | |")
    print(TORCH_MODELS_AFTER)


def further_torch_models(program):
    """Models of ours that no width was set by."""
    print("""
Nine further models that were measured later, on a host of ours (`data/measured/h200_torch_models.csv`, made by
`tools/measure/torch_models.py`): the sum of their kernels, and steps as CUDA graphs with the intervals above. Decoding
waits between kernels that copy its cache; why BERT's graph takes more than twice its kernels is not known. What a
product with 50,257 columns takes was worked out from GPT-2's sum of kernels here, which is no check of itself.

| model | kernels, measured | kernels | graph, measured | graph | inside 90 % |
|---|--:|--:|--:|--:|--:|""")
    sums, graphs, inside = [], [], 0
    with open("data/measured/h200_torch_models.csv", newline="") as file:
        cases = list(csv.DictReader(file))
    for case in cases:
        model, phase, batch, length, _ = COMPILED[case["case"]]
        a = predict(program, model, "--on", "h200", "--stack", "cuda-graph", *sized(phase, batch, length))
        kernels, graph = float(case["kernel_sum_us"]), float(case["graph_us"])
        sums.append(a["composition"]["kernels_s"] * 1e6 / kernels - 1)
        graphs.append(a["latency_s"] * 1e6 / graph - 1)
        within = a["latency_low_s"] <= graph * 1e-6 <= a["latency_high_s"]
        inside += within
        print(f"| {case['case']} | {kernels:,.0f} µs | {100 * sums[-1]:+.1f} % | {graph:,.0f} µs | {100 * graphs[-1]:+.1f} % | "
              f"{'yes' if within else 'no'} |")
    print(f"| **all** | | {percent(statistics.mean(map(abs, sums)))} | | {percent(statistics.median(map(abs, graphs)))} "
          f"in the median | {inside} of {len(cases)} |")


def optimised_hlo(program):
    print(OPTIMISED_HLO)
    print("| program | module against its HLO |\n|---|--:|")
    programs = pathlib.Path(__file__).parents[2] / "tests/accuracy/programs"
    for hlo in sorted(programs.glob("*.hlo.gz")):
        name = hlo.name.removesuffix(".hlo.gz")
        steps = [predict(program, str(file), "--on", "h200", "--stack", "xla")["latency_s"]
                 for file in (programs / f"{name}.mlir.gz", hlo)]
        print(f"| {name} | {100 * (steps[0] / steps[1] - 1):+.1f} % |")


def whole_neusight_models(program, data):
    print(NEUSIGHT_MODELS)
    print("| device | rows | mean error | worst | NeuSight's |\n|---|--:|--:|--:|--:|")
    errors = {}  # ours and NeuSight's, by device
    for r in neusight_models.rows(f"{data}/gpu/neusight/models_e2e.csv"):
        truth = float(r["label_all_e2e_latency"])
        both = [abs(t / truth - 1) for t in (neusight_models.predict(program, r, False),
                                             float(r["neusight_all_e2e_latency"]))]
        for key in (neusight_models.DEVICES[r["device"]], "**all**"):
            errors.setdefault(key, []).append(both)
    for key in sorted(errors, key=lambda k: (k == "**all**", k)):
        ours, theirs = zip(*errors[key])
        print(f"| {key} | {len(ours)} | {percent(statistics.mean(ours))} | {percent(max(ours))} | "
              f"{percent(statistics.mean(theirs))} |")


def models(program, data):
    torch_models(program, data)
    further_torch_models(program)
    optimised_hlo(program)
    whole_neusight_models(program, data)


OWN_PROGRAMS = """
Worst are `resnet50_b32_infer` and `bert_base_b1`, where host and device take about as long (a slower
host than the constants' would explain them, which was not checked); the scan over layers, of whose
predicted 55 ms seven concatenations of all layers' weights take 35, at 552 W in all where 474 were
measured; and decoding with a batch of 32, whose caches are rearranged by kernels that the fit has
seen few of.

Peak memory is compared with XLA's own assignment of buffers. Given the optimised and scheduled HLO
itself, the planner is within 0.6 % of it on each of 112 programs; what is left comes from the
lowering. What is stored and what is computed again follows XLA's own cost model, as its dumps of
eleven programs give it, step by step. Other rules were found by looking at XLA's buffers for six of
our programs below and for 46 of 105 drawn at random (`tools/measure/jax_samples.py`, two seeds); of
the 105, 96 are within 5 %.

Our own programs (`tools/measure/jax_models.py`, modules in `tests/accuracy/programs`), each predicted by
a fit to the kernels of four fifths of the others, chosen by a hash of their names. Their hosts were
about twice as fast as the reference table's, for which the stack's constants are: small programs
that wait for the host are predicted too slow. Training steps of ours drew 350 to 550 W where the
reference's drew 700, for random weights and labels leave most gradients near zero: their energy is
no measure. Of the rest that is far off, `lstm` is predicted with 643 launches where 521 ran, `dlrm` with the slower host's 179 µs for 13 kernels that took 92; the memory of
`decoder_05b_b8_s512_train` is not explained.
"""


DRAWN_PROGRAMS = """
Programs of one to four layers whose sizes, batches and ways of writing attention and experts were drawn at
random (`tools/measure/jax_samples.py`), timed briefly, each predicted by a fit to others as above. The fit
that was there before they were measured had their steps 11.6 % off in the mean; the rules of alignment,
reductions, masks and epilogues were written with them in view. ConvNeXt (`next`) is worst: cuDNN's
depthwise convolutions of seven pixels take 0.9 or 7.1 ms for alike shapes.
"""


def is_held_out(key):
    """Fold 0 of 3 at seed 1, as src/orrery/learn/split.h has it."""
    mask = 2**64 - 1

    def mix(z):
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9 & mask
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb & mask
        return z ^ (z >> 31)

    value = 0xcbf29ce484222325
    for byte in key.encode():
        value = (value ^ byte) * 0x100000001b3 & mask
    return mix(value ^ mix(1)) % 3 == 0


COMM_KINDS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
              "alltoall": "all-to-all"}
COMM_TYPES = {"half": ("f16", 2), "int8": ("i8", 1), "bfloat16": ("bf16", 2)}
COMM_SYSTEMS = [("dgx-a100", "a100_sxm"), ("dgx-h100", "h100_sxm"), ("dgx-h200", "h200_sxm"), ("l40s-node", "l40s")]


def comm_rows(path, backend=None):
    """Rows held out of the fits: (kind, bytes, ranks, dtype, microseconds)."""
    with open(path) as file:
        for r in csv.DictReader(file):
            if backend is not None and r["backend"] != backend:
                continue
            kind = COMM_KINDS[r["op_name"]]
            dtype, width = COMM_TYPES[r.get("nccl_dtype") or r["allreduce_dtype"]]
            size = int(r["message_size"]) * width
            if is_held_out(f"{kind} {dtype} {r['num_gpus']} {size}"):
                yield kind, size, r["num_gpus"], dtype, float(r["latency"]) * 1e3


def log_rows(path, ranks):
    with open(path) as file:
        next(file)
        for r in csv.DictReader(file):
            yield "all-reduce", int(r["size_B"]), str(ranks), "f32", float(r["time_us"])


def public_log(name, held_out=False):
    """Rows of data/collectives/logs, all or those held out of the fits: as above, and the stride."""
    with open(pathlib.Path(__file__).parents[2] / "data/collectives/logs" / f"{name}.csv") as file:
        for r in csv.DictReader(file):
            stride = r.get("stride", "1")
            key = f"{r['kind']} f32 {r['ranks']} {r['bytes']}" + (f" {stride}" if stride != "1" else "")
            if not held_out or is_held_out(key):
                yield r["kind"], int(r["bytes"]), r["ranks"], "f32", float(r["us"]), stride


def collectives(program, rows, cluster, library="nccl", *forced):
    """Signed errors and whether inside the interval, by kind."""
    rows = list(rows)
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as table:
        table.write("kind,bytes,ranks,dtype,stride\n")
        for r in rows:
            table.write(",".join(map(str, r[:4])) + f",{r[5] if len(r) > 5 else 1}\n")
        table.flush()
        run = subprocess.run([program, "collective", "--batch", table.name, "--on", cluster, "--library", library,
                              *forced], check=True, capture_output=True, text=True)
    judged = []
    for answer, r in zip(csv.DictReader(run.stdout.splitlines()), rows):
        judged.append((r[0], float(answer["predicted_us"]) / r[4] - 1,
                       float(answer["low_us"]) <= r[4] <= float(answer["high_us"])))
    return judged


def collective_row(name, judged):
    signed = [e for _, e, _ in judged]
    errors = sorted(abs(e) for e in signed)
    p90 = errors[min(len(errors) - 1, math.ceil(0.9 * (len(errors) - 1)))]
    inside = sum(i for _, _, i in judged) / len(judged)
    print(f"| {name} | {len(errors)} | {statistics.mean(signed):+.1%} | {percent(statistics.mean(errors))} | "
          f"{percent(statistics.median(errors))} | {percent(p90)} | {percent(errors[-1])} | {percent(inside)} |")


def collective_tables(program, comm):
    print("| system, collective | rows | mean signed | MAPE | median | p90 | worst | inside 90 % |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|")
    pooled = []
    for cluster, prefix in COMM_SYSTEMS:
        judged = collectives(program, comm_rows(f"{comm}/nccl_{prefix}.csv"), cluster)
        pooled += judged
        for kind in COMM_KINDS.values():
            collective_row(f"{cluster}, {kind}", [j for j in judged if j[0] == kind])
        collective_row(f"{cluster}, all", judged)
    collective_row("NCCL, all four", pooled)
    for backend, library in (("vllm_graph", "vllm-custom"), ("vllm_eager", "vllm-eager")):
        for cluster, prefix in COMM_SYSTEMS:
            rows = comm_rows(f"{comm}/custom_allreduce_vllm_{prefix}.csv", backend)
            collective_row(f"{cluster}, {library}", collectives(program, rows, cluster, library))
    rows = log_rows(f"{comm}/nccltests_DGX_H100_8gpu_allreduce.csv", 8)
    collective_row("nccl-tests' log of a DGX H100, 8 B to 16 GiB", collectives(program, rows, "dgx-h100"))
    for cluster, log, name in (("dgx-b200", "b200_one_node", "log of 8 B200, held out"),
                               ("rtx-pro-6000-server-node", "rtx_pro_6000_behind_root",
                                "log of 2 RTX PRO 6000, held out"),
                               ("dgx-b200", "b200_two_nodes", "logs of 2 × 8 B200, held out"),
                               ("dgx-h100", "h100_two_nodes", "logs of 2 × 2 to 2 × 8 H100, held out")):
        collective_row(name, collectives(program, public_log(log, held_out=True), cluster))
    collective_row("log of 2 × 1 H200, not fitted", collectives(program, public_log("h200_one_gpu_a_node"), "dgx-h200"))
    collective_row("log of 2 × 8 A100, not fitted", collectives(program, public_log("a100_two_nodes"), "dgx-a100"))
    collective_row("log of 2 RTX PRO 6000, ACS and IOMMU off, not fitted",
                   collectives(program, public_log("rtx_pro_6000_peers"), "rtx-pro-6000-server-node"))
    two = list(log_rows(f"{comm}/nccltests_H100_2node_4gpu_each_allreduce.csv", 8))
    judged = collectives(program, two, "h100-quad-node")
    collective_row("log of 2 × 4 H100, all", judged)
    large = [r for r in two if r[1] >= 2**22]
    collective_row("log of 2 × 4 H100, from 4 MiB", collectives(program, large, "h100-quad-node"))
    collective_row("log of 2 × 4 H100, from 4 MiB, Simple forced",
                   collectives(program, large, "h100-quad-node", "nccl", "--protocol", "simple"))


COLLECTIVES = """
## Collectives

NCCL's collectives on 2, 4 and 8 GPUs of one node, and vLLM's own all-reduce, from aiconfigurator's
tables (Apache-2.0): the third of the rows that a hash holds out of `data/collectives/*.json`. "mean
signed" is the mean of predicted / measured − 1. No row of the logs of a DGX H100 and of
2 × 4 H100 was fitted; of other logs the table says it.
"""
COLLECTIVES_AFTER = """
Small all-to-alls of 8 GPUs come out at 7 or at 16 µs from one size to the next, and the PCIe host of
the L40S reaches from 2 to 40 GB/s on the same call: that is what the largest errors are. Two RTX PRO 6000
behind their host's root complex were measured before and after it let them write to each other directly (ACS and
IOMMU off): the first is fitted, and the second up to twice as fast, which nothing tells from outside. What several
nodes add is fitted to public logs of two nodes of H100 and of B200 (`data/collectives/logs`). Hosts differ by more
than those logs: with four GPUs of each node times rise to 210 µs at 256 KiB, where NCCL's LL goes through the host's
memory, fall, and rise again to two or three times what LL128 would take, as if Simple ran; on the host of 2 × 4
H100, to which nothing was fitted, the same shows, and Simple forced explains it from 4 MiB on.
"""
# Published runs of Korthikanti et al. 2022, table 3: model, then pp, vpp, micro-batch, global batch.
KORTHIKANTI = {"22B": ("megatron-22b", 1, 1, 4, 4), "175B": ("megatron-175b", 8, 3, 1, 64),
               "530B": ("megatron-530b", 35, 3, 1, 280), "1T": ("megatron-1t", 64, 1, 1, 512)}
# Data and context ranks, sequences, their length, TFLOP/s a GPU.
LLAMA_3 = [(64, 1, 2048, 8192, 430), (128, 1, 2048, 8192, 400), (8, 16, 128, 131072, 380)]
# Of Narayanan et al. 2021, down the table; not published.
MICRO_BATCHES = [16, 8, 4, 4, 4, 2, 2, 1, 1, 1]
BRIDGE_SYSTEMS = {"DGX-H100": "dgx-h100", "DGX-B200": "dgx-b200", "DGX-B300": "dgx-b300", "DGX-GB200": "gb200-nvl72",
                  "DGX-GB300": "gb300-nvl72"}
BRIDGE_PRECISIONS = {"FP8": "fp8", "FP8-CS": "fp8", "": "fp8", "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "NVFP4": "nvfp4",
                     "BF16": "bf16"}
BRIDGE_DENSE = {"LLAMA3_8B": "llama3-8b", "LLAMA3_70B": "llama3-70b", "LLAMA3.1_405B": "llama3-405b"}
BRIDGE_CONFIGS = {"GPT OSS 120B": "openai--gpt-oss-120b", "Qwen3_30B_a3B": "Qwen--Qwen3-30B-A3B",
                  "Qwen3_235B_a22B": "Qwen--Qwen3-235B-A22B",
                  "Nemotron_3_Nano": "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                  "Nemotron_3_Super": "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
                  "Nemotron_3_Ultra": "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
                  "DeepSeekV4 Flash": "deepseek-ai--DeepSeek-V4-Flash"}
AGAIN_FAMILIES = {"gemm": "gemm", "bmm": "gemm", "conv2d": "convolution", "sdpa": "attention", "rmsnorm": "normalization",
                  "layernorm": "normalization", "softmax": "normalization", "reduce_sum": "reduction",
                  "transpose": "data movement"}
# The one of hespas' models whose sizes are published.
HESPAS = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576, "num_attention_heads": 9,
          "num_key_value_heads": 9, "head_dim": 128, "num_hidden_layers": 7, "intermediate_size": 2016,
          "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 4096, "hidden_act": "silu",
          "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"}
HESPAS_SYSTEMS = {"4xA100": "dgx-a100-40gb", "4xH100": "dgx-h100", "4xH200": "dgx-h200", "4xB200": "dgx-b200",
                  "8xTPUv3": "tpu-v3-8"}
TRAINING_HEAD = "| run | error | inside 90 % | memory |\n|---|--:|--:|--:|"


def train(program, model, **options):
    """The answer, whether or not memory holds it; else why it is refused."""
    sets = [f"--set={path}={quantity}" for path, quantity in options.pop("set", {}).items()]
    arguments = sets + [f"--{name.replace('_', '-')}" if value is True else f"--{name.replace('_', '-')}={value}"
                        for name, value in options.items() if value is not False]
    command = [program, "train", str(model), *arguments, "--json"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    answer = json.loads(run.stdout or "{}")
    return answer if "step_s" in answer else answer.get("error", {}).get("message", run.stderr.strip())


def training_table(rows):
    """`rows`: (name, answer, measured seconds). Returns the sizes of their errors."""
    print(TRAINING_HEAD)
    errors, inside, held = [], 0, 0
    for name, answer, measured in rows:
        if isinstance(answer, str):
            print(f"| {name} | – | | {answer} |")
            continue
        errors.append(answer["step_s"] / measured - 1)
        within = answer["step_low_s"] <= measured <= answer["step_high_s"]
        fits = answer["memory"]["fits"]
        inside += within
        held += fits
        memory = f"{answer['memory']['total_bytes'] / 1e9:.0f} GB{'' if fits else ', too much'}"
        print(f"| {name} | {100 * errors[-1]:+.1f} % | {'yes' if within else 'no'} | {memory} |")
    sizes = [abs(e) for e in errors]
    print(f"\n{len(errors)} rows: mean error {percent(statistics.mean(sizes))}, signed "
          f"{100 * statistics.mean(errors):+.1f} %, worst {percent(max(sizes))}; {inside} inside their 90 % interval; "
          f"{held} said to fit.\n")
    return sizes


def bridge_recipe(row):
    """What Megatron-Bridge's recipes say beside its table, by tests/accuracy/bridge_recipes.yaml."""
    import yaml
    path = pathlib.Path(__file__).resolve().parents[2] / "tests" / "accuracy" / "bridge_recipes.yaml"
    release = row["release"].split()[0]
    gflop = 1e3 * float(row["model_tflops_per_gpu"]) / float(row["tokens_per_s_per_gpu"])
    recipe = {}
    for rule in yaml.safe_load(path.read_text(encoding="utf-8")):
        if (row["model"].startswith(rule.get("model", "")) and rule.get("system", row["system"]) == row["system"] and
                rule.get("precision", row["precision"]) == row["precision"] and
                rule.get("from", "") <= release <= rule.get("to", "99") and
                int(row["tp"]) >= rule.get("tp", 1) and gflop > rule.get("gflop", 0)):
            recipe.update(rule["set"])
    if recipe.pop("overlap_gradients", True) is False:
        recipe["no_overlap_gradients"] = True
    return recipe


def bridge_row(program, data, row):
    model = BRIDGE_DENSE.get(row["model"]) or ("deepseek-v3" if row["model"] == "DeepSeekV3" else pathlib.Path(
        data, "model_configs", BRIDGE_CONFIGS[row["model"]] + "_config.json"))
    recipe = {"framework": "megatron-fsdp" if row["fsdp"] not in ("", "0") else "megatron-core", **bridge_recipe(row)}
    answer = train(program, model, on=BRIDGE_SYSTEMS[row["system"]], gpus=row["gpus"], tp=row["tp"], pp=row["pp"],
                   cp=row["cp"] or 1, vpp=row["vp"] or 1, ep=row["ep"] or 1, micro_batch=row["mbs"],
                   global_batch=row["gbs"], seq=row["seq"], dtype=BRIDGE_PRECISIONS[row["precision"]],
                   sp=int(row["tp"]) > 1, **recipe)
    measured = int(row["gbs"]) * int(row["seq"]) / (float(row["tokens_per_s_per_gpu"]) * int(row["gpus"]))
    name = f"{row['release'].split()[0]} {row['model']}, {row['gpus']} × {row['system'][4:]}"
    return f"{name}, {row['precision'] or 'FP8'}", answer, measured


def gpt_row(program, folder, row, micro_batch):
    layers, hidden, length, batch = (float(row[key]) for key in ("layers", "hidden", "seq", "global_batch"))
    config = folder / f"gpt_{row['params']}.json"
    config.write_text(json.dumps({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": int(layers), "n_embd": int(hidden),
        "n_head": int(row["heads"]), "n_positions": int(length), "vocab_size": int(row["vocab"]),
        "activation_function": "gelu_new", "resid_pdrop": 0.1, "attn_pdrop": 0.1, "embd_pdrop": 0.1,
        "layer_norm_epsilon": 1e-5, "torch_dtype": "float16"}))
    answer = train(program, config, on="selene", framework="megatron-2021", dtype="fp16", gpus=row["gpus"], tp=row["tp"],
                   pp=row["pp"], micro_batch=micro_batch, global_batch=row["global_batch"], seq=row["seq"],
                   recompute="full")
    flops = 96 * batch * length * layers * hidden**2 * (1 + length / (6 * hidden) +
                                                        int(row["vocab"]) / (16 * layers * hidden))
    return (f"{row['params']}, {row['gpus']} GPUs, micro-batch {micro_batch}", answer,
            flops / (float(row["tflops_per_gpu"]) * 1e12 * int(row["gpus"])))


def table_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def training_constants():
    import yaml
    path = pathlib.Path(__file__).resolve().parents[2] / "data" / "training" / "constants.yaml"
    print("| constant | value | origin |\n|---|--:|---|")
    for name, entry in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        # A map of an architecture holds entries of its own.
        for key, own in ({name: entry} if "value" in entry else {f"{part}, {name}": e for part, e in entry.items()}).items():
            print(f"| `{key}` | {own['value']} | {' '.join(own['source'].split())} |")


def torchtitan_steps(program):
    import yaml
    path = pathlib.Path(__file__).resolve().parents[2] / "tests" / "accuracy" / "torchtitan_steps.yaml"
    file = yaml.safe_load(path.read_text(encoding="utf-8"))
    print("""### torchtitan

PyTorch's own loop, of Llama 3.1 (`tests/accuracy/torchtitan_steps.yaml`): FSDP, operators one by one or layers compiled,
all but attention and every second product computed again, or whole layers (70B). Its H100s have 96 GB at 2.4 TB/s and
are held to 500 W. What each operator reads and writes is counted from PyTorch's and Llama's public code
(`src/orrery/cluster/training/eager_operators.cc`); that such steps were predicted far too fast without it, and that a
lower power limit did not lower the clock, was seen by these rows, but no number is of them. Why the runs on H200, of
another team, take a third longer than predicted is not known. Its H100s are a what-if on the catalogue's: while
trees were asked with the changed bandwidth, which made products of 8 bits up to twice as long that wait for arithmetic,
runs in fp8 came out 3 to 5 % too fast, and 70B's right.
""")
    rows = []
    for row in file["rows"]:
        run = dict(row["train"])
        measured = run["global_batch"] * run["seq"] / (row["tokens_per_s"] * run["gpus"])
        rows.append((row["name"], train(program, row["model"], **run), measured))
    training_table(rows)
    for name, source in file["sources"].items():
        print(f"- {name}: {source}")
    print()


MEMORY_UNITS = {"GB": 1e9, "GiB": 2**30, "MiB": 2**20}


def published_memory(program, data):
    import yaml
    path = pathlib.Path(__file__).resolve().parents[2] / "tests" / "accuracy" / "published_memory.yaml"
    file = yaml.safe_load(path.read_text(encoding="utf-8"))
    print("""### Peak memory

Peaks that others measured and described (`tests/accuracy/published_memory.yaml`), against what `orrery train` predicts on
the rank with the most, or on the last stage where a log is its rank's; predicted / published − 1. PyTorch's allocator
counts, so that what is predicted for CUDA and NCCL is left out of both. What tensors held is "allocated"; "reserved" is
what the allocator took of the device for them, which is more by blocks that fit nothing: of these only one is predicted,
that of 16-bit logits. Runs that differ in what memory does not depend on share one prediction. No number here is fitted. What frameworks keep is read in their code, but it was looked for where
rows were far off: that experts' results are not kept, that the last stage of an interleaved pipeline holds nearly as much
as the first, what PyTorch's loss and pipelines hold, and recipes' `disable_parameter_transpose_cache`. The
last two rows, of a test of Megatron-LM, were added when nothing more was changed.

| run | counts | published | predicted | error |
|---|---|--:|--:|--:|""")
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for row in file["rows"]:
            model = row["model"]
            if model in file["models"]:
                model = pathlib.Path(folder, model + ".json")
                model.write_text(json.dumps(file["models"][row["model"]]), encoding="utf-8")
            elif model.endswith(".json"):
                model = pathlib.Path(data, "model_configs", model)
            memory = train(program, model, **row["train"])["memory"]
            stages = memory["by_stage_bytes"]
            predicted = (stages[-1] if row.get("rank") == "last" else max(stages)) - memory["other_bytes"]
            value, unit = row["published"].split()
            published = float(value) * MEMORY_UNITS[unit]
            errors.append(predicted / published - 1)
            print(f"| {row['name']} | {row['counts']} | {published / 1e9:.1f} GB | {predicted / 1e9:.1f} GB |"
                  f" {100 * errors[-1]:+.1f} % |")
    sizes = [abs(e) for e in errors]
    print(f"\n{len(errors)} rows: mean error {percent(statistics.mean(sizes))}, signed {100 * statistics.mean(errors):+.1f} %, "
          f"worst {percent(max(sizes))}; {sum(e <= 0.1 for e in sizes)} within 10 %.")
    print("""
Most is predicted too low: workspaces of kernels, blocks that fit nothing and, of experts, tokens that do not come
evenly are not modelled. Of Llama 3.1 405B the number of micro-batches is not stated; the code's is taken, as many as
stages, and the run with sequences of 262,144 tokens, whose tensors are the others' in all sizes, takes a tenth more
for reasons not known. Of Llama 3 70B twice the tensor ranks took 8.6 GB less, where weights, gradients and
activations should halve: 18 GB less are predicted. A module of Moonlight's that is computed again saves 0.68 to 0.72
GB, 0.9 predicted; that two together save no more than one, as published, is not seen.

Sources:
""")
    for name, source in file["sources"].items():
        print(f"- {name}: {source}")
    print()


def training(program, data):
    tables = f"{data}/training"
    print("""## Training steps on clusters

`orrery train` against published steps, each row with its signed error, predicted / measured − 1, and the memory it
predicts: all of these ran, so that "too much" is an error of its own, or a recipe that keeps less. Kernels are those
of the device's fit, collectives those of NCCL on the cluster's fabric; beside them stand these constants. None
is fitted to the tables below, but priors of experts, that attention with sinks runs unfused, and that their traffic
is not hidden unless one says so, were written down with those rows in view, and recipes were looked up first where
rows were far off (`tests/accuracy/bridge_recipes.yaml`):
""")
    training_constants()
    print("""
Korthikanti et al. 2022 (arXiv:2205.05198), Megatron-LM on A100: "full" computes layers again, "seqsel" has sequence
parallelism and computes attention's scores again. Calculon states 3.65 % mean and 8.87 % worst on these rows. Sums over
tensor ranks in the backward pass run behind weight gradients, as the paper says; that gradients are added up by kernels
of their own it does not say: Megatron-LM did so the year before, and later in the products.
""")
    rows = []
    for row in table_of(f"{tables}/korthikanti2022_a100_step_time.csv"):
        model, stages, chunks, micro_batch, batch = KORTHIKANTI[row["model"]]
        selective = row["recompute"] == "seqsel"
        rows.append((f"{row['model']} {row['recompute']}",
                     train(program, model, on="selene", framework="megatron-2022", dtype="fp16", tp=8, pp=stages,
                           vpp=chunks, micro_batch=micro_batch, global_batch=batch, seq=2048, sp=selective,
                           recompute="selective" if selective else "full"), float(row["step_s"])))
    training_table(rows)
    print("""Narayanan et al. 2021 (arXiv:2104.04473), table 1, on A100. Micro-batches are not published but
assumed, so that they fit.
""")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        training_table([gpt_row(program, folder, row, micro_batch) for row, micro_batch in zip(
            table_of(f"{tables}/megatron2021_a100.csv"), MICRO_BATCHES)])
    bridge = table_of(f"{tables}/megatron_bridge.csv")
    print("Megatron-Bridge's published throughput, dense models on H100 (2.7 % in the mean before the slowest of so many "
          "cards was\ntaken to set the pace, which other tables ask for, but these do not):\n")
    on_h100 = [row for row in bridge if row["system"] == "DGX-H100" and row["model"] in BRIDGE_DENSE]
    by_system = {"DGX-H100": training_table([bridge_row(program, data, row) for row in on_h100])}
    print("Llama-3.1 405B on 512 H100, tp 8, pp 8, vpp 8, cp 2, dp 4, 256 sequences of 8,192; in "
          "bf16 it is said not to fit for gradients in fp32, which are not stated (75 GB with those in bf16):\n")
    training_table([(dtype, train(program, "llama3-405b", on="dgx-h100", tp=8, sp=True, pp=8, vpp=8, cp=2, dp=4,
                                         global_batch=256, seq=8192, dtype=dtype, overlap_tensor=True), measured)
                           for dtype, measured in (("bf16", 19.81), ("fp8", 13.02))])
    print("""Its other rows, by system. What a recipe overlaps, captures as CUDA graphs and computes again is not in the
table but in the recipes, of which these are set: gradients in 16 bits, experts' traffic behind other micro-batches,
CUDA graphs of whole steps, further tokens predicted, layers in 16 bits, modules computed again, fused losses, weights
sharded, tokens sent once to a node or once to each expert, routers fused or not. What
they say and `orrery train` cannot: attention in fp8, experts' products fused with what lies between them, parts of layers
offloaded, a host that waits for each layer's counts of tokens. GPT OSS is said to need too much because its attention,
with learnt sinks, is taken to run unfused and to keep its scores: its steps take as long, but on 80 GB it cannot have kept
them, and neither fused (7.7 s) nor with scores computed again (16.4 s) is the step of 14.1 s predicted. The same
row differs by up to a half from one release to another; 26.06.01's of GPT OSS is a regression of fused kernels by its
release notes. Of Blackwell GPUs few kernels were measured: products in 16 bits, attention and experts; products in
eight and four bits are of a fit over other GPUs.
""")
    for system, cluster in BRIDGE_SYSTEMS.items():
        print(f"### {cluster}\n")
        by_system[system] = by_system.get(system, []) + training_table([
            bridge_row(program, data, row) for row in bridge if row["system"] == system and row not in on_h100])
    everything = [size for sizes in by_system.values() for size in sizes]
    print(f"All {len(by_system['DGX-H100'])} rows on H100: mean error {percent(statistics.mean(by_system['DGX-H100']))}; all "
          f"{len(everything)} of the table: {percent(statistics.mean(everything))}.\n")
    print("""### hespas' llama3-100m

MaxText on four devices, attention written out by XLA, of which the table gives two decimals. Its A100s have 40 GB, by the
names of its files; that row was measured at 73 to 87 ms elsewhere in the work, whose own roofline gives 60.6 ms.
""")
    with tempfile.TemporaryDirectory() as name:
        config = pathlib.Path(name) / "llama3-100m.json"
        config.write_text(json.dumps(HESPAS))
        training_table([(row["system"], train(program, config, on=HESPAS_SYSTEMS[row["system"]], dp=4,
                                              # A sequence a device; of a TPU v3 a device is one of a chip's two cores.
                                              micro_batch=2 if "TPU" in row["system"] else 1,
                                              global_batch=8 if "TPU" in row["system"] else 4, seq=4096,
                                              framework="maxtext", recompute="selective"),
                                float(row["step_s"]))
                               for row in table_of(f"{tables}/hespas_reference_step_times.csv")
                               if row["model"] == "llama3-100m" and row["system"] in HESPAS_SYSTEMS])
    torchtitan_steps(program)
    print("""### Llama 3 405B

As Meta trained it (arXiv:2407.21783, table 4), in bf16 on up to 16,384 H100, tp 8, pp 16, 16.8 million tokens a step:
`--framework fsdp --zero 2 --gradients fp32`, for it kept weights once they were gathered, and added gradients up and
reduced them in 32 bits; that operators ran one by one, as PyTorch's do in torchtitan's runs above, is not in the
paper but taken. A layer a chunk (`--vpp 8`) follows from the text, by which the first chunk was left with the
embedding alone when its stage got a layer less. Published are 430, 400 and 380 TFLOP/s a GPU; with fused operators
464, 432 and 417 are predicted, 8 to 10 % more. Memory counts what fused ones keep: PyTorch's, whose results in 32
bits would add 40 GB, cannot all have been kept.
""")
    rows = []
    for data_ranks, context, batch, length, teraflops in LLAMA_3:
        gpus = 8 * 16 * data_ranks * context
        answer = train(program, "llama3-405b", on="meta-grand-teton-h100", framework="fsdp", zero=2, gradients="fp32",
                       tp=8, sp=True, pp=16, vpp=8, dp=data_ranks, cp=context, global_batch=batch, seq=length, dtype="bf16")
        rows.append((f"{gpus} × H100, sequences of {length}, {answer['tflops_per_gpu']:.0f} TFLOP/s predicted", answer,
                     answer["model_flops"] / (teraflops * 1e12 * gpus)))
    training_table(rows)
    print("""Left out: `megatron_h100_weak_scaling.csv` and hespas' larger models, whose sizes or batches are not published;
ResNets but the one whose module is at hand: its four A100 are predicted at 115 ms a step by `predict` on
`dgx-a100-40gb`, published 0.10 s.
""")
    published_memory(program, data)


# Errors of the generic fit on the same rows, before one of them was fitted, in per cent.
BLACKWELL = {"product": 12.1, "attention": 41.9, "decode": 52.8, "grouped_byte_product": None,
             "grouped_scaled_product": None}


def published_of_blackwell(program):
    """Kernels that others published of Blackwell GPUs, against predictions in a burst and sustained."""
    print("""
What others published of kernels on Blackwell (`data/measured/blackwell_published.csv`: each with its source, none is
fitted; machines that are held to less power than their kind are left out). Predictions are those of `torch-eager`, without
casts; predicted / measured − 1 in the median, and the mean of its size. For few rows the same product differs by
a half from one source to the other, by library and by how it was timed; for many, most were timed within some ten
milliseconds, between a burst and sustained.

| device, kernels | rows | burst: median | mean size | sustained: median | mean size |
|---|--:|--:|--:|--:|--:|""")
    with open("data/measured/blackwell_published.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    groups = {}
    for row in rows:
        p = json.loads(row["params"])
        size = ("attention, forward" if row["op"] == "sdpa" else
                f"{row['format']}, {'up to 64 rows' if p['m'] <= 64 else 'up to 1,024' if p['m'] <= 1024 else 'more'}")
        groups.setdefault((row["device"], size), []).append(row)
    for (device, name), members in sorted(groups.items()):
        if len(members) < 4:
            continue
        cells = []
        for regime in ("burst", "sustained"):
            with tempfile.TemporaryDirectory() as folder:
                table = pathlib.Path(folder) / "kernels.csv"
                with open(table, "w", encoding="utf-8", newline="") as file:
                    writer = csv.writer(file)
                    writer.writerow(("op", "dtype", "params"))
                    writer.writerows((row["op"], row["dtype"], row["params"]) for row in members)
                run = subprocess.run([program, "kernel", "--on", device, "--batch", table, "--regime", regime], check=True,
                                     capture_output=True, text=True)
            errors = [float(a["predicted_us"]) / float(row["us"]) - 1
                      for row, a in zip(members, csv.DictReader(run.stdout.splitlines()))]
            cells += [f"{100 * statistics.median(errors):+.1f} %", percent(statistics.mean(map(abs, errors)))]
        print(f"| {device}, {name} | {len(members)} | {' | '.join(cells)} |")


def few_rows(file, before):
    """A shipped fit of a device of which few rows are known, by its own errors out of fold."""
    fit = json.loads((pathlib.Path(__file__).parents[2] / "data/kernels" / file).read_text())
    print(f"""
The {fit['device'].upper()} is known by few public rows (`data/kernels/README.md`), as is the device of a user who measures
for ten minutes. Out of fold, and what the generic fit said of the same rows before (of experts' products 54.6 % on
both classes together):

| class | rows | out of fold | generic |
|---|--:|--:|--:|""")
    for name, one in sorted(fit["classes"].items()):
        generic = f"{before[name]:.1f} %" if before.get(name) else ""
        print(f"| {name.replace('_', ' ')} | {one['rows']} | {percent(one['error'])} | {generic} |")
    print("""
Of the GB200, the same chip, no row was fitted: attention is 7.6 % off on 25 public rows of prefill and 8.8 % on 22 of
decoding.""")


def measured_again(table, judged):
    """How far the table's operators are from themselves, timed by our protocol on another H200."""
    def operators(rows):
        return {(r["op"], r["dtype"], json.dumps(json.loads(r["params"]), sort_keys=True)): r for r in rows}

    def compressed(name):
        with gzip.open(f"data/measured/{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    # Its machine's empty launch less ours.
    with open(pathlib.Path(table).with_name("calibration.json"), encoding="utf-8") as file:
        theirs = json.load(file)["graph_node_us"]
    launch = theirs - statistics.median(float(r["us"]) for r in compressed("h200_kernels") if r["op"] == "empty")
    again = operators(compressed("h200_kernels_again"))
    groups = {}
    for operator, row in operators(table_of(table)).items():
        if operator in again:
            error = abs((float(again[operator]["us"]) + launch) / float(row["us"]) - 1)
            for family in (AGAIN_FAMILIES.get(row["op"], "elementwise"), "all"):
                groups.setdefault(family, []).append(error)
    print(f"""
The table's own operators, timed again by our protocol on an H200 of ours
(`data/measured/h200_kernels_again.csv.gz`, which nothing is fitted to), {launch:.2f} µs added for its machine's launch:
a model that knew our machine without error would be so far off on the table.

| family | rows | machine, mean | p90 | model, mean |
|---|--:|--:|--:|--:|""")
    known = {f["name"]: f for f in judged["models"][0]["by_family"]} | {"all": judged["models"][0]["all"]}
    for family, errors in sorted(groups.items(), key=lambda g: (g[0] == "all", g[0])):
        errors.sort()
        print(f"| {family} | {len(errors)} | {percent(statistics.mean(errors))} | {percent(errors[int(0.9 * len(errors))])} | "
              f"{percent(known[family]['mean_error'])} |")


def main():
    program = sys.argv[1]
    data = sys.argv[2] if len(sys.argv) > 2 else "../shared/data"
    if sys.argv[3:] == ["models"]:
        models(program, data)
        return
    if sys.argv[3:] == ["training"]:
        training(program, data)
        return
    print(f"""# Validation

Made by `python3 tools/validation/report.py build/release/orrery > docs/validation.md`; do not edit.

Errors are |predicted / measured − 1|. "inside 90 %" is the share of rows within their 90 %
interval, "p" the chance of a share as odd were it truly 90 % (exact binomial test), "± half" the
interval's median half-width over the prediction, "score" Winkler's interval score over that of
one constant relative width that holds 90 % of the rows (below 1 is better). "roofline" is the
model of that name on the same rows. No row below was used in a fit of kernels; where constants of
hosts were taken from some of them, the section says so. What predictions cost in time is in
[bench/README.md](../bench/README.md).

## H200, XLA: whole programs

The 16 programs of `h200/jax_models.csv` from their StableHLO modules, with `data/kernels/h200.xla.json`,
which was fitted to the kernels of other programs. The host's constants were measured on our own hosts
and doubled for the table's, by what its other programs show. Errors are predicted / measured − 1.
""")
    programs(program, data)
    print("""
## H200, PyTorch: models under torch.compile

15 models (`data/measured/h200_torch_compile.csv`, made by `tools/measure/torch_models.py --compile`): the
number of their kernels, the time of these together as profiled, and the step of calls queued back
to back. Constants were taken from those whose names' SHA-256 is even; what attention becomes in
which library was read from the profiles of all. Most steps of the default mode wait for the host,
whose time a kernel varied from 18 to 37 µs.
""")
    compiled(program)
    print("""
What is left: convolutions, whose kernels cuDNN chooses by trial; kernels that put together the sums
which cuBLAS cuts in parts, a fifth of those in Llama's decoding (they are in their products' time
here); layers that BERT writes out in fp32.""")
    models(program, data)
    print("""
## vLLM: steps of the engine

Seconds of public runs of vLLM 0.19 (Llama-3.1-8B in bf16, ShareGPT requests; github.com/casys-kaist/
LLMServingSim, MIT) in which no prompt was read: a decode step is the requests that run over the
tokens of that second. Every third of them; no row of either GPU is in a fit.
""")
    vllm_runs(program, data)
    print("""
The RTX 4090's products of few rows are told by the L40S', a board of the same chip whose memory keeps check bits, and
come out 6 to 9 % longer than its profiled ones (up to 64 rows), those of the RTX PRO 6000 5 %, by a fit over other
GPUs, as the workstation edition (section Serving says why).
Steps are as long as their profiled kernels together, −6 to +17 %: the host's work is hidden behind the device's.

Deployments of aiconfigurator's table (0.12 to 0.19) on one GPU, closed loops of requests: while the
tokens of an answer are made, every other request's prompt is read once, so that
TPOT = decode step + (requests − 1) · prefill / answer. Llama-3.1-8B is left out (its prompts alone would
take three quarters of the GPU's peak: several replicas), weights in four bits of MiniMax-M2.5 (its
file describes eight), and what waited 40 s for memory.
""")
    vllm_deployments(program, data)
    print("""
Experts make the difference. For gpt-oss the tables have 664 µs for 96 tokens, where a whole layer of
the run with 64 requests takes 651 µs: it seems to have run another kernel. No table has the B300's; and
that a graph does not wait for the host's part of block-scaled products (59 µs each in the tables)
was told by these three rows.
""")
    print(f"""## H200, PyTorch: mixed operators at each row's clock

Fit `data/kernels/h200.torch.json` on our own measurements (`data/measured/h200_kernels.csv.gz` and, timed by
a profiler and put on the same scale, `h200_kernels_profiled.csv.gz`, 120,000 rows in all);
validated on the 1,141 operators of `h200/kernels.csv`, which were drawn and measured apart. A test
fails when the two share an operator. Black-box trees fitted to that very file reach 12.0 % on
rows of it they have not seen; its own spread between passes is 2.4 % in the median.
""")
    h200 = validate(program, f"{data}/h200/kernels.csv", "--on", "h200")
    print(HEAD.format(first="family"))
    print(by_family(h200))
    print("\nWorst rows:\n")
    print(worst(h200))
    measured_again(f"{data}/h200/kernels.csv", h200)
    print("""
Convolutions carry most of the error: cuDNN picks among many kernels by timing them once, so that
neighbouring shapes run different code, and the same shape on another day. What products lose is cuBLAS's
choice of tiles for odd sizes, above all in batches of small ones: with less than 80 terms it takes tiles of
64 × 8 or others of many times the size for neighbouring shapes, two to three times apart. Out of fold, further
descriptions of tiles, waves and split depths, or six times as large trees, change errors by some 3 % at most. Our
own products of 16 bits are off by 4.4 % out of fold (4.9 % before the profiled ones were added), this table's by 6.3 %.

Two differences between machines and protocols are left. Kernels below 4 µs hang on the launch, which
differs by 0.2 µs and is known of the machine validated on by its empty launch alone. And kernels whose
operands are 0.5 to 2 MB are faster in this table than in ours, as if it took fewer copies of them in
turn, which stay in L2: 129 rows, off by 11.4 %, the other 1012 by 5.6 %. Measured again on our machine, loops
of that size take 17 % longer than in the table in the median, products 5 %, smaller and larger ones of both
within 1.5 % of it.

Intervals count 3 % from one machine to another, a share chosen after 2 % had left 87 % of these rows
inside: their coverage here is no independent check.

## Held-out fifth of public tables, vLLM kernels

Fits `data/kernels/*.vllm.json` on four fifths of aiconfigurator's tables (a random sample of
them, Apache-2.0, github.com/ai-dynamo/aiconfigurator); below, the fifth that a hash of the
operator holds out. That tool's own interpolation, leave-one-out, is off by 4.9 % in the median
and 15.6 % at p90 for GEMM, 2.0 and 9.7 % for prefill attention.
""")
    print(HEAD.format(first="device, table"))
    for device, prefix in SILICON:
        for table, name in TABLES:
            a = validate(program, f"{data}/gpu/silicon/{prefix}_{table}.csv", "--on", device, "--stack", "vllm",
                         "--held-out", "5")
            print(row(f"{device}, {name}", a["models"][0]["all"], a["models"][1]["all"]))
    print(f"""
Errors on the L40S are the largest in every table: its long products differ by up to 40 % between
neighbouring shapes, for its clock follows its power and its tables carry none. What is left in experts' blocks
hangs on the single row: residuals of H100 and H200 on the same operator have a correlation of 0.58, those of
neighbouring numbers of tokens or of other loads of the same layer none (−0.1 to 0). The library takes the tiles of
such a block from tables of its own, one entry for each number of tokens, which nothing here knows. Fits that
begin from or include the other devices' rows are better by a tenth.

### Products wider than those fitted

Fits to the products of at most 8,192 columns, on all that have more. Look-ups in the same tables
are off by 9 to 15 % in the median there, 51 to 112 % at p90.
""")
    with tempfile.TemporaryDirectory() as folder:
        wider_than_fitted(program, f"{data}/gpu/silicon", pathlib.Path(folder))
    print(f"""
On the L40S, products of 8-bit types with few rows and 51,200 columns and more run a kernel that no narrower
ones do, and take 56 µs and more whatever their depth.

## Power, clocks and energy on the H200

Power follows ten shares of the board's limit (`data/kernels/power.json`), fitted to our own operators in a
burst and sustained. Checked on the 37 operators of `h200/power_points.csv`, none of which a fit has seen, and on
the fifth held out of aiconfigurator's tables with power (times and a correction of power fitted to the rest):
""")
    power(program)
    print(f"""
Those tables sample a driver's running mean every 0.1 s over runs of 0.03 to 1 s, so that short ones read
what ran before them: rows of the same attention and time that differ in the type of the cache alone are 17 %
(prefill) and 27 % (decode) apart in power. No prediction of their energy can come nearer than 12 and 19 %.

## A GPU that no row was seen of

Each GPU in turn is predicted by a fit over the other three (`orrery calibrate generic`) from its
data sheet, then with {FEW} measured rows of it (`orrery calibrate --prior`): mean error on all
other rows, and the share of them inside their interval. Rows of bf16; where the L40S has keys of
8 bits, vLLM takes FlashInfer and Triton there, which none of the others ran. Intervals grow with the distance
between data sheets, as far as three devices tell; that they are of one size either way, and that kernels differ
as they do on the devices measured, was chosen by these tables, so that their coverage is no independent check.
""")
    with tempfile.TemporaryDirectory() as folder:
        print(SHORT_HEAD.format(first="device, table", last=f"± half | with {FEW} rows") + "--:|")
        unseen_gpus(program, f"{data}/gpu/silicon", pathlib.Path(folder))
        few_rows("b200.vllm.json", BLACKWELL)
        published_of_blackwell(program)
        print("""
A100 and L40S, who run the same libraries' kernels at clocks and with caches that differ by a factor of
two, are each told by the other alone. What is left is the libraries' choice among kernels, which
50 rows do not show: a Gaussian process over the residuals whose
scales were learned from 400 of the GPU's own rows is off by as much with 50 (A100: products 9.1, decode
10.3 %; L40S: 12.6, 13.8 %, of the fit before trees asked seven questions), and 200 rows bring products of an A100 to
7.6 %. That depth was chosen by the errors of this table.

## NeuSight's tables

fp32 operators of PyTorch, by the fit that these devices have under `torch`, over the five GPUs that NeuSight was
trained on: P4, P100, T4, V100, A100 40 GB (github.com/sitar-lab/NeuSight, MIT; ASPLOS 2025). AMD's GPUs, which have
fits to their own rows, take it here too, as devices that no row was seen of. The last column is NeuSight's own mean
error for the family, on GPUs trained on or not. The P4's linear rows for training ran at a fraction
of the clock of those for testing. Its batched products and the other four GPUs contradict them, by
a factor of 2.4: `calibrate` leaves them out and says so. Whole models above ran at the lower clock too, so that those
of the P4 are predicted too fast. AMD's fp32 products run on matrix units,
which the others lack, at a share of the data sheet's rate that a public run on an MI210 shows (0.72, in the device's
file); batches of products of such sizes as 196 run in tiles of 16 × 8 there, a tenth of that. A GPU that was
trained on counts as another board of its chip, half a power of two off, since its rows for testing are of
another run; AMD's as two off for another maker's libraries: priors that were set with these rows in view.
""")
        print(SHORT_HEAD.format(first="family, device", last="NeuSight"))
        neusight(program, f"{data}/gpu/neusight")
    print(COLLECTIVES)
    collective_tables(program, f"{data}/comm")
    print(COLLECTIVES_AFTER, end="")
    print()
    training(program, data)
    print()
    serving.section(program, data)


if __name__ == "__main__":
    main()
