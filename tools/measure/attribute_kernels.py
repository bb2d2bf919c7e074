#!/usr/bin/env python3
"""Says which instruction of the optimised HLO each profiled kernel ran, and how long it took.

  python3 attribute_kernels.py --programs FOLDER --table models.csv --out xla_kernels.csv

FOLDER holds CASE.hlo and CASE.kernels.csv as jax_models.py keeps them in its archive. Kernels
launched from CUDA graphs carry no instruction's name, so the two sequences are aligned: each
fusion has one kernel, a copy one or two, a library call one or more, and memsets belong to what
follows them. An instruction's time `us` runs from the end of the kernel before it, or its own
start if that is later, to its own end: kernels overlap by a microsecond or two in a graph, and
times so taken add up to the step; `alone_us` is how long its kernels ran themselves. `sm_mhz` is the
clock of the case: that of the loop that was timed or, where the board throttled in it, the one at which
the profiled calls, which began cooler, must have run to be so much shorter or longer than the loop's.
"""
import argparse
import csv
import os
import re
import sys

NO_KERNEL = {"parameter", "constant", "bitcast", "get-tuple-element", "tuple", "after-all", "partition-id"}
FAR = 1e9
GAPS = 0.01  # of a step, between its kernels
MOST = 0.05  # that a clock is taken to have differed by


def computations(path):
    found, current, entry = {}, None, None
    with open(path) as source:
        for line in source:
            head = re.match(r"(ENTRY )?%?([\w.\-~]+) \(.*\{\s*$", line)
            if head and not line.startswith(" "):
                current = found.setdefault(head.group(2), [])
                entry = head.group(2) if head.group(1) else entry
            elif line.startswith("}"):
                current = None
            elif current is not None:
                part = re.match(r"\s+(?:ROOT )?%([\w.\-~]+) = (.*)$", line)
                if part:
                    current.append((part.group(1), *opcode_of(part.group(2))))
    return found, entry


def opcode_of(text):
    """What follows the type, which may hold spaces inside its brackets."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == " " and depth == 0:
            return re.match(r"[\w\-]*", text[i + 1:]).group(0), text[i + 1:]
    return "", text


def in_order(found, name, out):
    for instruction, opcode, text in found[name]:
        if opcode == "call":
            in_order(found, re.search(r"to_apply=%([\w.\-~]+)", text).group(1), out)
        elif opcode in ("while", "conditional"):
            raise ValueError(f"has a {opcode}: kernels cannot be told apart by their order")
        elif opcode not in NO_KERNEL:
            out.append((instruction, opcode))
    return out


def base(name):
    return re.sub(r"[._\d]+$", "", name)


def kind_of_kernel(name):
    if name.startswith("Memset"):
        return "memset"
    if name.lower().startswith("memcpy"):
        return "copy"
    if re.match(r"(loop|input|wrapped|gemm_fusion|fusion|triton|sort)", name):
        return "fusion"
    return "library"


def step_cost(instruction, opcode, kernel, kind, first):
    """Of giving one more kernel to an instruction."""
    if kind == "memset":
        return 0.1
    if opcode == "custom-call":
        return (0 if first else 0.3) if kind == "library" else 2
    if opcode == "copy":
        return (0 if first else 0.1) if kind == "copy" else 2
    if kind == "fusion" and first:
        return 0 if base(kernel) == base(instruction) else 0.5
    return 3


def align(instructions, kernels):
    """For each kernel the index of its instruction; dynamic programming over a band."""
    kinds = [kind_of_kernel(k["name"]) for k in kernels]
    slack = len(kernels) - len(instructions) + 30
    best = {(0, 0, False): (0.0, None)}
    # States: instructions finished, kernels given, whether the next one has had a kernel that is no memset.
    layer = {0: {(0, False): (0.0, None)}}
    for j, kernel in enumerate(kernels):
        new = {}

        def offer(state, cost, origin):
            if state not in new or cost < new[state][0]:
                new[state] = (cost, origin)
        for (i, had), (cost, _) in layer[j].items():
            # Instructions without a kernel of their own are dear.
            for skip in range(4):
                at = i + skip
                fresh = skip > 0 or not had
                missed = skip - 1 if had and skip > 0 else skip
                if at >= len(instructions) or abs(j - at) > slack:
                    break
                name, opcode = instructions[at]
                first = fresh
                c = cost + 4 * max(0, missed) + step_cost(name, opcode, kernel["name"], kinds[j], first)
                offer((at, kinds[j] != "memset" or (not fresh)), c, (i, had))
        layer[j + 1] = new
        best = layer
    state = min(best[len(kernels)], key=lambda s: best[len(kernels)][s][0] + 4 * (len(instructions) - 1 - s[0]))
    cost = best[len(kernels)][state][0] + 4 * (len(instructions) - 1 - state[0])
    owners = []
    for j in range(len(kernels), 0, -1):
        owners.append(state[0])
        state = best[j][state][1]
    return owners[::-1], cost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--table", required=True, action="append", help="of jax_models.py, for the clocks")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    clocks = {}
    for table in options.table:
        with open(table, newline="") as source:
            rows = list(csv.DictReader(source))
        boost = max(float(r["sm_mhz"]) for r in rows)
        for r in rows:
            clock = float(r["sm_mhz"])
            if clock < 0.99 * boost:
                longer = float(r["pipe_us"]) / float(r["busy_us"]) - GAPS
                clock = min(boost, clock * min(1 + MOST, max(1 - MOST, longer)))
            clocks[r["case"]] = f"{clock:.0f}"
    with open(options.out, "w", newline="") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(["case", "instruction", "us", "alone_us", "kernels", "sm_mhz"])
        for file in sorted(os.listdir(options.programs)):
            case = file.removesuffix(".hlo")
            if not file.endswith(".hlo") or case not in clocks:
                continue
            try:
                instructions = in_order(*computations(os.path.join(options.programs, file)), [])
            except ValueError as error:
                print(f"{case} left out: it {error}", file=sys.stderr)
                continue
            with open(os.path.join(options.programs, case + ".kernels.csv"), newline="") as source:
                kernels = list(csv.DictReader(source))
            owners, cost = align(instructions, kernels)
            if cost > 0.5 * len(kernels):
                print(f"{case} left out: its kernels do not fit its instructions (cost {cost:.1f})", file=sys.stderr)
                continue
            times, alone, counts, end = {}, {}, {}, 0.0
            for owner, kernel in zip(owners, kernels):
                start = float(kernel["start_us"])
                stop = start + float(kernel["dur_us"])
                times[owner] = times.get(owner, 0) + max(0.0, stop - max(start, end))
                alone[owner] = alone.get(owner, 0) + stop - start
                counts[owner] = counts.get(owner, 0) + 1
                end = max(end, stop)
            for i, (name, _) in enumerate(instructions):
                if i in times:
                    writer.writerow([case, name, f"{times[i]:.3f}", f"{alone[i]:.3f}", counts[i], clocks[case]])
            print(f"{case}: {len(kernels)} kernels, {len(times)} of {len(instructions)} instructions, cost {cost:.1f}",
                  file=sys.stderr)


if __name__ == "__main__":
    main()
