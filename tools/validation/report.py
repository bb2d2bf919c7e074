#!/usr/bin/env python3
"""Writes docs/validation.md: every shipped fit against measurements it has not seen.

  python3 tools/validation/report.py build/release/orrery [SHARED_DATA] > docs/validation.md

SHARED_DATA (../shared/data) holds the measured tables; they are not part of the project.
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
            print(short_row(f"{left}, {name}", unseen, f"{percent(known['mean_error'])} ({percent(known['coverage'])})"))


def neusight(program, tables, folder):
    fit = str(folder / "neusight.json")
    calibrate(program, "generic", *(part for kind in ("add", "bmm", "gelu", "linear", "ln", "softmax")
                                    for part in ("--from", f"{tables}/train_{kind}.csv")), "--out", fit)
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
    with gzip.open("data/measured/h200_xla_kernels.csv.gz", "rt") as file:
        head, *rows = file.read().splitlines(keepends=True)
    own, gaps = new_tally(), []
    with tempfile.TemporaryDirectory() as folder:
        answers = {}
        for part in range(5):
            held = {c["case"] for c in cases if hashlib.sha256(c["case"].encode()).digest()[0] % 5 == part}
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
    inside, count = sum(own["inside"]) + sum(tally["inside"]), len(own["inside"]) + len(tally["inside"])
    near = sum(abs(math.log1p(p) - math.log1p(m)) <= 0.1 for _, m, p, _ in gaps)
    print(f"""
Both tables together: {inside} of {count} steps lie inside their 90 % interval, whose half-width is
{percent(statistics.median(own['half'] + tally['half']))} in the median.

### The composition gap

γ = (step − kernels) / kernels ([error_composition.md](error_composition.md)) of our programs that the
device sets the pace of: measured, predicted, and measured steps over predicted kernels. Within
0.1 in ln(1 + γ) on {near} of {len(gaps)}; the last is {statistics.median(abs(g[3]) for g in gaps):.3f} in the median.

| program | measured | predicted | mixed |
|---|--:|--:|--:|""")
    for name, measured, predicted, mixed in gaps:
        print(f"| {name} | {measured:+.3f} | {predicted:+.3f} | {mixed:+.3f} |")


OWN_PROGRAMS = """
Worst are products of a batch of one whose time is half the host's (`bert_base_b1`, `resnet50_b1`: the
host of that table is the slower of those seen), decoding with a batch of 32, whose caches are
rearranged by kernels that the fit has seen few of, and ResNet's training step: the lowering
leaves out some of the copies that XLA makes.

Our own programs (`tools/measure/jax_models.py`, modules in `tests/accuracy/programs`), each predicted by
a fit to the kernels of four fifths of the others, chosen by a hash of their names. Their hosts were
about twice as fast as the reference table's, for which the stack's constants are: small programs
that wait for the host are predicted too slow. Training steps of ours drew 350 to 550 W where the
reference's drew 700, for random weights and labels leave most gradients near zero: their energy is
no measure.
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


def collectives(program, rows, cluster, library="nccl", *forced):
    """Signed errors and whether inside the interval, by kind."""
    rows = list(rows)
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as table:
        table.write("kind,bytes,ranks,dtype\n" + "".join(",".join(map(str, r[:4])) + "\n" for r in rows))
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
signed" is the mean of predicted / measured − 1. No row of the two logs was fitted.
"""
COLLECTIVES_AFTER = """
Small all-to-alls of 8 GPUs come out at 7 or at 16 µs from one size to the next, and the PCIe host of
the L40S reaches from 2 to 40 GB/s on the same call: that is what the largest errors are. Over two nodes
latencies are NCCL's own constants and shares of the adapters are from other clusters. On the log's
host NCCL seems to have run Simple where its tuning would take LL128, as where it cannot see the
path from GPU to adapter; forced to it, predictions follow the log from 4 MiB on. Between 64 KiB and
1 MiB it takes 80 to 210 µs, rising and falling, which nothing here explains.
"""


def main():
    program = sys.argv[1]
    data = sys.argv[2] if len(sys.argv) > 2 else "../shared/data"
    print(f"""# Validation

Made by `python3 tools/validation/report.py build/release/orrery > docs/validation.md`; do not edit.

Errors are |predicted / measured − 1|. "inside 90 %" is the share of rows within their 90 %
interval, "p" the chance of a share as odd were it truly 90 % (exact binomial test), "± half" the
interval's median half-width over the prediction, "score" Winkler's interval score over that of
one constant relative width that holds 90 % of the rows (below 1 is better). "roofline" is the
model of that name on the same rows. No row below was used in a fit.

## H200, XLA: whole programs

The 16 programs of `h200/jax_models.csv` from their StableHLO modules, with `data/kernels/h200.xla.json`,
which was fitted to the kernels of other programs. The host's constants were measured on our own hosts
and doubled for the table's, by what its other programs show. Errors are predicted / measured − 1.
""")
    programs(program, data)
    print(f"""
## H200, PyTorch: mixed operators at each row's clock

Fit `data/kernels/h200.torch.json` on our own measurements (`data/measured/h200_kernels.csv.gz`);
validated on the 1,141 operators of `h200/kernels.csv`, which were drawn and measured apart. A test
fails when the two share an operator. Black-box trees fitted to that very file reach 12.0 % on
rows of it they have not seen; its own spread between passes is 2.4 % in the median.
""")
    h200 = validate(program, f"{data}/h200/kernels.csv", "--on", "h200")
    print(HEAD.format(first="family"))
    print(by_family(h200))
    print("\nWorst rows:\n")
    print(worst(h200))
    print("""
Convolutions carry most of the error: cuDNN picks among many kernels by timing them once, so that
neighbouring shapes run different code, and the same shape on another day (of 41 convolutions
measured twice one in ten differs by more than 12 %). What products lose is cuBLAS's choice of
tiles for odd sizes: errors fall by 10 to 15 % with every doubling of the measured rows, and by
less than 3 % with other learners or further descriptions of tiles. Kernels below 4 µs hang on
the launch, which differs between machines by 0.2 µs and is known of the machine validated on by
its empty launch alone.

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
neighbouring shapes, for its clock follows its power and its tables carry none.

## A GPU that no row was seen of

Each GPU in turn is predicted by a fit over the other three (`orrery calibrate generic`) from its
data sheet, then with {FEW} measured rows of it (`orrery calibrate --prior`): mean error on all
other rows, and the share of them inside their interval. Rows of bf16; where the L40S has keys of
8 bits, vLLM takes FlashInfer and Triton there, which none of the others ran.
""")
    with tempfile.TemporaryDirectory() as folder:
        print(SHORT_HEAD.format(first="device, table", last=f"with {FEW} rows"))
        unseen_gpus(program, f"{data}/gpu/silicon", pathlib.Path(folder))
        print("""
## NeuSight's tables

fp32 operators of PyTorch, fitted to the five GPUs that NeuSight was trained on: P4, P100, T4, V100,
A100 40 GB (github.com/sitar-lab/NeuSight, MIT; ASPLOS 2025). The last column is NeuSight's own mean
error for the family, on GPUs trained on or not. The P4's linear rows for training ran at a quarter
of the clock of those for testing. AMD's fp32 products run on matrix units, which the others lack.
""")
        print(SHORT_HEAD.format(first="family, device", last="NeuSight"))
        neusight(program, f"{data}/gpu/neusight", pathlib.Path(folder))
    print(COLLECTIVES)
    collective_tables(program, f"{data}/comm")
    print(COLLECTIVES_AFTER, end="")


if __name__ == "__main__":
    main()
