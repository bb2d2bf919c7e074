#!/usr/bin/env python3
"""Makes data/measured/h200_xla_kernels.csv.gz: the kernels of measured programs as rows to fit to.

  python3 tools/measure/attribute_kernels.py --programs FOLDER --table models.csv --out times.csv
  python3 tools/calibrate/xla_rows.py build/release/orrery FOLDER times.csv | gzip -9n > rows.csv.gz

FOLDER holds CASE.hlo of each case. `orrery predict CASE.hlo --kernels` says which kernel each
instruction is; the roofline does for that, so that no fit is needed to make one. Kernels of a case
that are alike are one row, their times averaged and `count` their number; those that ran mostly
beside another kernel are left out.
"""
import collections
import csv
import subprocess
import sys
import tempfile

LEAST_US = 0.3  # of kernels that end while their predecessor still drains
MOSTLY = 0.3    # of its own time, for kernels longer than LONG_US
LONG_US = 4


def main():
    program, folder, times = sys.argv[1:]
    measured = collections.defaultdict(dict)
    clock = {}
    with open(times, newline="") as source:
        for row in csv.DictReader(source):
            exclusive, alone = float(row["us"]), float(row["alone_us"])
            if exclusive > MOSTLY * alone or alone < LONG_US:
                measured[row["case"]][row["instruction"]] = exclusive
            clock[row["case"]] = row["sm_mhz"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["op", "dtype", "params", "us", "sm_mhz", "count", "case"])
    for case in sorted(measured):
        with tempfile.NamedTemporaryFile(suffix=".csv") as listed:
            subprocess.run([program, "predict", f"{folder}/{case}.hlo", "--on", "h200", "--stack", "xla",
                            "--kernel-model", "roofline", "--kernels", listed.name],
                           check=True, stdout=subprocess.DEVNULL)
            with open(listed.name, newline="") as source:
                kernels = list(csv.DictReader(source))
        alike = {}
        for kernel in kernels:
            time = measured[case].get(kernel["name"])
            if kernel["op"] and time is not None:
                alike.setdefault((kernel["op"], kernel["dtype"], kernel["params"]), []).append(time)
        for key, times_us in alike.items():
            mean = sum(sorted(times_us)) / len(times_us)
            writer.writerow([*key, f"{max(LEAST_US, mean):.3f}", clock[case], len(times_us), case])


if __name__ == "__main__":
    main()
