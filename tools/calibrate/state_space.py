#!/usr/bin/env python3
"""The constants of state-space layers in data/training/constants.yaml, from what was measured.

    python3 tools/calibrate/state_space.py build/release/orrery data/measured/h200_state_space_kernels.csv

A scan's kernels take t = a · traffic + c · product + 2 us each: traffic is moving each one's operands
once at 4.3 TB/s, product the time that the program gives one product of tokens × inner width with as
many operations. a of the forward and of the backward pass and c of both are those with the least
squares of ln(predicted / measured). Of the others, the median of time over traffic stands.
"""
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile

LAUNCH_US, TB_PER_US = 2.0, 4.3e6
FORWARD = ["decay_sums", "chunk_states", "pass_states", "chunk_products", "chunk_outputs"]
BACKWARD = ["decay_sums", "chunk_products", "chunk_states", "pass_states_wide", "states_gradient", "pass_gradients",
            "inputs_gradient", "keys_gradient", "queries_gradient", "products_gradient", "keys_by_products",
            "queries_by_products", "decays_gradient", "sums_gradient"]
# The gated norm's gradient is a library's (data/measured/README.md).
ALONE = {"convolution": "convolution", "convolution_backward": "convolution_gradient", "gated_norm": "gated_norm"}


def products(program, shapes):
    """us of one product with as many operations, forward and backward."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as asked, tempfile.NamedTemporaryFile(suffix=".csv") as answer:
        rows = csv.writer(asked)
        rows.writerow(["op", "dtype", "params"])
        for s in shapes:
            inner, n, chunk = s["heads"] * s["head"], s["state"], s["chunk"]
            inside = chunk // 2 + chunk * s["groups"] * n // inner
            for width in (2 * n + inside, 5 * n + 3 * inside):
                rows.writerow(["gemm", "bf16", json.dumps({"m": s["batch"] * s["length"], "n": width, "k": inner})])
        asked.flush()
        subprocess.run([program, "kernel", "--on", "h200", "--batch", asked.name, "--out", answer.name], check=True,
                       stdout=subprocess.DEVNULL)
        with open(answer.name, encoding="utf-8", newline="") as file:
            times = [float(row["predicted_us"]) for row in csv.DictReader(file)]
    return list(zip(times[::2], times[1::2]))


def fitted(cases, c):
    """Least squares and its a: ln of a · traffic + what is left is convex enough for a walk over hundredths."""
    def off(a):
        return sum(math.log((a * traffic + c * product + fixed) / t)**2 for t, traffic, product, fixed in cases)
    return min((off(a / 100), a / 100) for a in range(80, 200))


def main():
    program, path = sys.argv[1:]
    by_shape = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            by_shape.setdefault(row["params"], {})[row["case"]] = float(row["us"]), float(row["bytes"]) / TB_PER_US
    both = products(program, [json.loads(shape) for shape in by_shape])
    passes = [[(sum(seen[k][0] for k in kernels), sum(seen[k][1] for k in kernels), product[i], LAUNCH_US * len(kernels))
               for seen, product in zip(by_shape.values(), both)] for i, kernels in enumerate((FORWARD, BACKWARD))]
    _, c, fits = min((sum(f[0] for f in fits), c, fits) for c in (i / 20 for i in range(20, 100))
                     for fits in [[fitted(cases, c) for cases in passes]])
    for name, cases, (_, a) in zip(("scan", "scan_backward"), passes, fits):
        worst = max(abs((a * traffic + c * product + fixed) / t - 1) for t, traffic, product, fixed in cases)
        print(f"{name}: {a:.2f}, within {100 * worst:.1f} % in {len(cases)} shapes")
    print(f"scan_products: {c:.2f}")
    for name, kernel in ALONE.items():
        ratios = [seen[kernel][0] / seen[kernel][1] for seen in by_shape.values()]
        print(f"{name}: {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
