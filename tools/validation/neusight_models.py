#!/usr/bin/env python3
"""Whole models in NeuSight's table (gpu/neusight/models_e2e.csv) against predictions, with NeuSight's own.

  python3 tools/validation/neusight_models.py build/release/orrery ../shared/data/gpu/neusight/models_e2e.csv

Its models are Hugging Face's in fp32 without TF32 and with attention written out; `train` is a forward and a
backward pass, without an optimiser; `fusion` is torch.compile. Calls were timed one by one with pauses between
them: at the burst clock. Rows of several GPUs are left out. The sizes of the Switch Transformer, which it does not
tell, are those that fit its parameters and its work (tests/accuracy/torch_accuracy_test.cc).
"""
import argparse
import collections
import csv
import json
import subprocess
import sys

MODELS = {"gpt2_large": "gpt2-large", "bert_large": "bert-large", "opt_13": "opt-1.3b", "gpt3_xl": "gpt3-xl",
          "gpt3_27": "gpt3-2.7b", "switchxl4": "tests/accuracy/switch_xl_4.json"}
DEVICES = {"Tesla_P100-PCIE-16GB": "p100", "Tesla_P4": "p4", "Tesla_T4": "t4", "Tesla_V100-PCIE-32GB": "v100-pcie-32gb",
           "NVIDIA_A100-PCIE-40GB": "a100-pcie-40gb", "AMD_Instinct_MI100": "mi100", "AMD_Instinct_MI210": "mi210"}


def predict(program, row, verbose):
    command = [program, "predict", MODELS[row["model_name"]], "--on", DEVICES[row["device"]], "--dtype", "fp32",
               "--batch", row["batch"], "--seq", row["seqlen"], "--choose", "fused_attention=no", "--json",
               "--regime", "burst",
               "--stack", "torch-compile" if row["option"] == "fusion" else "torch-eager",
               "--phase", "train" if row["mode"] == "train" else "forward"]
    if row["mode"] == "train":
        command += ["--choose", "optimizer=none"]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        print(answer.stderr.strip(), file=sys.stderr)
        return None
    found = json.loads(answer.stdout)
    if verbose:
        kinds = collections.Counter()
        for kernel in found["kernels"]:
            kinds[kernel["kind"]] += kernel["time_s"] * 1e3
        print("   ", ", ".join(f"{k} {v:.0f}" for k, v in kinds.most_common()))
    return found["latency_s"] * 1e3


def rows(table):
    """Of single GPUs and models that are known here."""
    with open(table, newline="") as file:
        return [r for r in csv.DictReader(file) if r["option"] in ("", "fusion") and r["device"] in DEVICES
                and r["model_name"] in MODELS]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("table")
    arguments.add_argument("--verbose", action="store_true", help="milliseconds by kind of kernel, too")
    options = arguments.parse_args()
    errors = collections.defaultdict(list)
    for row in sorted(rows(options.table), key=lambda r: (r["device"], r["model_name"], r["mode"], int(r["batch"]))):
        ours = predict(options.program, row, options.verbose)
        if ours is None:
            continue
        truth = float(row["label_all_e2e_latency"])
        error, theirs = ours / truth - 1, float(row["neusight_all_e2e_latency"]) / truth - 1
        print(f"{DEVICES[row['device']]:16} {row['model_name']:11} b{row['batch']:3} s{row['seqlen']:5} {row['mode']:5} "
              f"{row['option']:7} {truth:8.1f} ms  predicted {ours:8.1f} {100*error:+6.1f} %   NeuSight {100*theirs:+6.1f} %")
        for key in (DEVICES[row["device"]], "all", row["mode"]):
            errors[key].append((abs(error), abs(theirs)))
    for key, values in errors.items():
        ours, theirs = (100 * sum(v[i] for v in values) / len(values) for i in (0, 1))
        print(f"{key:16} {len(values):3} rows: mean error {ours:5.1f} %, NeuSight {theirs:5.1f} %")


if __name__ == "__main__":
    main()
