#!/usr/bin/env python3
"""The constants of routers in data/training/constants.yaml, from what was measured.

    python3 tools/calibrate/router.py build/release/orrery data/measured/h200_training_kernels.csv

Operator by operator, the choice of experts and a loss of balance are 17 loops over the scores and two top-k,
their gradient nine loops. Of time over what the program gives these, the median stands.
"""
import csv
import json
import statistics
import subprocess
import sys
import tempfile


def main():
    program, path = sys.argv[1:]
    sizes = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["case"].startswith("router"):
                sizes.setdefault(row["params"], {})[row["case"]] = float(row["us"])
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as asked, tempfile.NamedTemporaryFile(suffix=".csv") as answer:
        rows = csv.writer(asked)
        rows.writerow(["op", "dtype", "params"])
        for params in map(json.loads, sizes):
            shape = {"shape": [params["tokens"], params["experts"]]}
            rows.writerow(["relu", "fp32", json.dumps(shape)])
            rows.writerow(["topk", "fp32", json.dumps({**shape, "k": params["active"]})])
        asked.flush()
        subprocess.run([program, "kernel", "--on", "h200", "--batch", asked.name, "--out", answer.name], check=True,
                       stdout=subprocess.DEVNULL)
        with open(answer.name, encoding="utf-8", newline="") as file:
            times = [float(row["predicted_us"]) for row in csv.DictReader(file)]
    forward, backward = [], []
    for seen, loop, choice in zip(sizes.values(), times[::2], times[1::2]):
        forward.append(seen["router"] / (17 * loop + 2 * choice))
        backward.append((seen["router_and_backward"] - seen["router"]) / (9 * loop))
    for name, ratios in (("router", forward), ("router_backward", backward)):
        print(f"{name}: {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} sizes")


if __name__ == "__main__":
    main()
