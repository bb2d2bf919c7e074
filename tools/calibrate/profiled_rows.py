#!/usr/bin/env python3
"""Puts rows of `tools/measure/kernels.py --profiled` on the scale of those timed in graphs.

  python3 tools/calibrate/profiled_rows.py data/measured/h200_kernels.csv.gz CHECK.csv… -- MANY.csv… > TABLE.csv

  python3 tools/calibrate/profiled_rows.py data/measured/h200_kernels.csv.gz \
      data/measured/h200_profiled_check.csv.gz -- data/measured/h200_kernels_profiled.csv.gz > TABLE.csv

A profiler's time of a kernel has neither its launch nor what several kernels of an operator wait
for each other. The operators of CHECK.csv are also in the table of graphs; of them, by kind,

  graph = launch + (1 + share) · profiled + joint · (kernels - 1)

is fitted so that the relative residuals' absolute sum is smallest, and MANY.csv is given out with
these times as `us`, the profiler's as `profiled_us`: a table that was made so can be made again from
itself. What was found goes to stderr. Rows whose launches differ by more than a tenth are left out,
of both.
"""
import csv
import gzip
import statistics
import sys

KINDS = {"gemm": "product", "bmm": "product", "conv2d": "convolution", "sdpa": "attention"}
# In a graph a copy is a node of its own, which the copy engines run at two thirds of the pace.
OTHER_IN_GRAPHS = {"copy"}
LARGEST_SPREAD = 0.1
COLUMNS = ["op", "dtype", "params", "us", "sm_mhz", "profiled_us", "kernels", "run"]


def rows_of(path, columns):
    """The rows of a table, or the end of the program where it is none that has such columns."""
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as source:
            reader = csv.DictReader(source)
            missing = set(columns) - set(reader.fieldnames or [])
            if missing:
                sys.exit(f"{path}: no column {', '.join(sorted(missing))}")
            return list(reader)
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"{path}: {error}")


def key(row):
    return row["op"], row["dtype"], row["params"]


def kind(row):
    return KINDS.get(row["op"], "loop")


def profiled(row):
    return float(row["profiled_us"])


def steady(row):
    return "us_max" not in row or float(row["us_max"]) - float(row["us_min"]) <= LARGEST_SPREAD * profiled(row)


def solve(a, b):
    """Of a small symmetric system, by Gauss and Jordan."""
    n = len(b)
    m = [row[:] + [x] for row, x in zip(a, b)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(m[r][i]))
        m[i], m[pivot] = m[pivot], m[i]
        for r in range(n):
            if r != i and m[r][i]:
                f = m[r][i] / m[i][i]
                m[r] = [x - f * y for x, y in zip(m[r], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


def least_absolute(points, targets, weights):
    """Coefficients of smallest weighted absolute residuals, by least squares again and again."""
    n = len(points[0])
    x = [0.0] * n
    scale = list(weights)
    for _ in range(60):
        a = [[1e-12 if i == j else 0.0 for j in range(n)] for i in range(n)]
        b = [0.0] * n
        for p, t, w in zip(points, targets, scale):
            for i in range(n):
                b[i] += w * w * p[i] * t
                for j in range(n):
                    a[i][j] += w * w * p[i] * p[j]
        x = solve(a, b)
        scale = [w / max(1e-3, abs(w * (t - sum(c * q for c, q in zip(x, p))))) ** 0.5
                 for p, t, w in zip(points, targets, weights)]
    return x


def features(row):
    return [1.0, profiled(row), float(row["kernels"]) - 1.0]


def main():
    cut = sys.argv.index("--") if "--" in sys.argv else 0
    if cut < 3 or cut + 1 == len(sys.argv):
        sys.exit(__doc__)
    graphs, checks, many = sys.argv[1], sys.argv[2:cut], sys.argv[cut + 1:]
    timed, empty = {}, []
    for row in rows_of(graphs, ["op", "dtype", "params", "us"]):
        (empty if row["op"] == "empty" else timed.setdefault(key(row), [])).append(float(row["us"]))
    if not empty:
        sys.exit(f"{graphs}: no row of an empty launch, by which machines are compared")
    both = {}
    for path in checks:
        for row in rows_of(path, ["op", "dtype", "params", "profiled_us", "kernels"]):
            if key(row) in timed and steady(row) and row["op"] not in OTHER_IN_GRAPHS:
                both.setdefault(kind(row), []).append((row, statistics.median(timed[key(row)])))
    found = {}
    for name, pairs in sorted(both.items()):
        points = [features(row) for row, _ in pairs]
        targets = [us for _, us in pairs]
        found[name] = least_absolute(points, targets, [1 / us for us in targets])
        off = sorted(abs(sum(c * p for c, p in zip(found[name], point)) / us - 1) for point, us in zip(points, targets))
        launch, rate, joint = found[name]
        print(f"{name}: {len(pairs)} operators, launch {launch:.2f} us, share {rate - 1:+.3f}, joint {joint:.2f} us; "
              f"off by {off[len(off) // 2]:.1%} in the median, {off[9 * len(off) // 10]:.1%} at p90", file=sys.stderr)
    table = [["empty", "fp32", "{}", f"{statistics.median(empty):.3f}", "", "", 0, "graphs"]]
    taken, unsteady = set(), 0
    for path in many:
        for row in rows_of(path, ["op", "dtype", "params", "sm_mhz", "profiled_us", "kernels", "run"]):
            if row["op"] in OTHER_IN_GRAPHS | {"empty"} or key(row) in taken or key(row) in timed:
                continue
            if not steady(row):
                unsteady += 1
                continue
            if kind(row) not in found:
                sys.exit(f"{path}: {row['op']} has nothing like it in {', '.join(checks)}")
            taken.add(key(row))
            us = sum(c * p for c, p in zip(found[kind(row)], features(row)))
            table.append([row["op"], row["dtype"], row["params"], f"{us:.3f}", row["sm_mhz"], row["profiled_us"],
                          row["kernels"], row["run"]])
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(table)
    print(f"{len(taken)} rows, {unsteady} left out as unsteady", file=sys.stderr)


if __name__ == "__main__":
    main()
