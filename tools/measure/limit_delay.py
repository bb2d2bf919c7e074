#!/usr/bin/env python3
"""How soon a GPU's power limit slows it down: launches of one product after a rest, timed one by one.

  python3 tools/measure/limit_delay.py --out h200_limit_delay.csv

Each row is a part of a run: from when on after the rest, in milliseconds, how many launches began in it, and the median
of what they took, in microseconds. Products are of random numbers; a copy, which no clock slows, is the control. Runs
begin after `--rest` seconds without work, or after as long of copies, as where an engine decodes between prompts.
"""
import argparse
import csv
import statistics
import time

import torch

SIZES = (4096, 8192)
PARTS = (0, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 100, 150, 200, 300)


def work_of(kind, size):
    left = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(left)
    if kind == "copy":
        return lambda: out.copy_(left)
    if kind == "bf16":
        return lambda: torch.mm(left, right, out=out)
    one = torch.ones((), device="cuda")
    a, b = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn).t()
    return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def run(work, between, rest, lasting):
    """(start in ms, length in us) of launches that together take `lasting` seconds."""
    work()  # libraries start
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    for _ in range(5):
        work()
    end.record()
    end.synchronize()
    count = max(20, int(lasting * 1e3 / (begin.elapsed_time(end) / 5)))
    until = time.monotonic() + rest
    while time.monotonic() < until:
        if between is None:
            time.sleep(0.01)
        else:
            for _ in range(50):
                between()
            torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    events[-1].synchronize()
    starts = [events[0].elapsed_time(event) for event in events]
    return [(start, 1e3 * (after - start)) for start, after in zip(starts, starts[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rest", type=float, default=1.2)
    parser.add_argument("--lasting", type=float, default=0.4)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with open(arguments.out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("kind", "size", "after", "repeat", "from_ms", "launches", "us"))
        for kind in ("bf16", "fp8", "copy"):
            for size in SIZES:
                try:
                    work, copies = work_of(kind, size), work_of("copy", 16384)
                    work()
                    torch.cuda.synchronize()
                except (AttributeError, RuntimeError, TypeError) as error:  # before Ada and 2.1 there is no fp8
                    print("left out", kind, size, str(error).split("\n")[0], flush=True)
                    continue
                for after, between in (("rest", None), ("copies", copies)):
                    for repeat in range(arguments.repeats):
                        parts = {}
                        for start, us in run(work, between, arguments.rest, arguments.lasting):
                            parts.setdefault(max(part for part in PARTS if part <= start), []).append(us)
                        for part, times in parts.items():
                            writer.writerow((kind, size, after, repeat, part, len(times),
                                             f"{statistics.median(times):.1f}"))
                        print(kind, size, after, repeat, flush=True)


if __name__ == "__main__":
    main()
