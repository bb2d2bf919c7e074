#!/usr/bin/env python3
"""Compares how a stack lowers StableHLO with what XLA made of it.

  python3 tools/validation/lowering_against_hlo.py build/release/orrery FOLDER... [--on h200] [--worst N]

Each FOLDER holds NAME.mlir (what a user gives) beside NAME.hlo (XLA's optimised, scheduled HLO
text of it). Both are read by `orrery predict`; printed are launches and gigabytes moved, ours
against XLA's, in all and by kind of kernel, then the kernels whose traffic differs most.
"""
import argparse
import collections
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

KINDS = {"gemm": "product", "fused_gemm": "product", "bmm": "product", "conv2d": "convolution", "sdpa": "attention"}


def kernels(orrery, module, device):
    """How often kernels of a kind that move as many bytes run; None where the file cannot be read."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as rows:
        run = subprocess.run([orrery, "predict", str(module), "--on", device, "--stack", "xla", "--kernels", rows.name],
                             capture_output=True, text=True)
        if run.returncode != 0:
            print(f"{module}: {run.stderr.strip()}", file=sys.stderr)
            return None
        found = collections.Counter()
        for row in csv.DictReader(open(rows.name)):
            sizes = json.loads(row["params"] or "{}")
            kind = KINDS.get(row["op"], "reduction" if sizes.get("columns", 1) > 1 else "loop")
            moved = sizes.get("read", 0) + sizes.get("written", 0)
            found[kind, moved] += float(row["count"])
    return found


def totals(orrery, module, device):
    run = subprocess.run([orrery, "predict", str(module), "--on", device, "--stack", "xla", "--json"],
                         capture_output=True, text=True)
    answer = json.loads(run.stdout)
    return answer["launches"], answer["bytes"], answer["latency_s"]


def by_kind(found):
    sums = collections.defaultdict(lambda: [0.0, 0.0])
    for (kind, moved), count in found.items():
        sums[kind][0] += count
        sums[kind][1] += count * moved / 1e9
    return sums


def percent(ours, theirs):
    return 100 * (ours / theirs - 1) if theirs else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orrery")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--on", default="h200")
    parser.add_argument("--worst", type=int, default=0, help="kernels to list for each program")
    options = parser.parse_args()
    launch_errors, byte_errors = [], []
    print(f"{'program':36} {'launches':>13} {'%':>7} {'GB':>17} {'%':>7} {'ms':>17} {'%':>7}  by kind")
    for folder in options.folders:
        for module in sorted(folder.glob("*.mlir")):
            compiled = module.with_suffix(".hlo")
            if not compiled.exists():
                continue
            ours, theirs = kernels(options.orrery, module, options.on), kernels(options.orrery, compiled, options.on)
            if ours is None or theirs is None:
                continue
            (n, b, t), (m, c, u) = totals(options.orrery, module, options.on), totals(options.orrery, compiled, options.on)
            launch_errors.append(abs(percent(n, m)))
            byte_errors.append(abs(percent(b, c)))
            mine, his = by_kind(ours), by_kind(theirs)
            kinds = "  ".join(f"{k} {mine[k][0]:.0f}/{his[k][0]:.0f}" for k in sorted({*mine, *his}))
            print(f"{module.stem:36} {n:6.0f}/{m:6.0f} {percent(n, m):+7.1f} {b / 1e9:8.2f}/{c / 1e9:8.2f} {percent(b, c):+7.1f} "
                  f"{1e3 * t:8.3f}/{1e3 * u:8.3f} {percent(t, u):+7.1f}  {kinds}")
            differences = {key: ours[key] - theirs[key] for key in {*ours, *theirs}}
            worst = sorted(differences.items(), key=lambda d: -abs(d[1] * d[0][1]))
            for (kind, moved), count in worst[:options.worst]:
                if count:
                    print(f"    {count:+6.0f} × {moved / 1e6:10.3f} MB  {kind}")
    if launch_errors:
        print(f"{len(launch_errors)} programs: launches {sum(launch_errors) / len(launch_errors):.1f} % off in the mean, "
              f"bytes {sum(byte_errors) / len(byte_errors):.1f} %")


if __name__ == "__main__":
    main()
