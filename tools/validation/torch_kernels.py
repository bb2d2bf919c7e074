#!/usr/bin/env python3
"""Sets the launches predicted of PyTorch models beside those a profiler saw, by kind.

  python3 tools/validation/torch_kernels.py build/release/orrery ../shared/data/h200/torch_models.csv
  … --case gpt2_b8_s1024_train        one model, every kind of kernel
  … --stack cuda-graph                another stack's launches (the first kernel list is the same)

The table names models as tools/measure/torch_models.py does; the kernel lists are CASE.kernels.csv
in the folder beside it (torch_kernels/ or torch/).
"""
import argparse
import collections
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

# Kernels as profilers name them, the first pattern that matches.
MEASURED = [
    ("fill", r"^Mem(set|cpy)|FillFunctor"),
    ("attention", r"sdpa|flash|fmha|compute_dot_do_o|convert_dq|philox"),
    ("convolution", r"fprop|dgrad|wgrad|convolve|ImplicitGemm|conv2d|cudnn.*conv|AddPadding|nchwToNhwc|nhwcToNchw|dgrad"
                    r"|nhwcCopy|nhwcSlice|cudnn::ops|cudnn::cnn|Depthwise|depthwise"),
    ("attention", r"sdpa|flash|fmha|compute_dot_do_o|convert_dq"),
    ("product", r"nvjet|gemm|cutlass|splitKreduce|gemv|dot_kernel|reduce_1Block"),
    ("batch norm", r"batch_norm|batchnorm"),
    ("norm", r"layer_norm|LayerNorm|GammaBeta|RowwiseMoments|GroupNorm|ComputeFusedParams|rms_norm|RMSNorm"),
    ("softmax", r"SoftMax|softmax"),
    ("loss", r"nll_loss|cross_entropy"),
    ("pool", r"pool"),
    ("optimizer", r"multi_tensor_apply"),
    ("dropout", r"dropout|masked_scale"),
    ("embedding", r"gather|embedding|compute_grad_weight|sum_and_scatter|indexSelect|index_|krn_partial|scatter"),
    ("sort", r"sort|scan|Scan|Sort|cub::|bincount|topk|TopK|gatherTopK|unique|reduce_by_key|thrust"),
    ("concatenate", r"CatArray"),
    ("reduce", r"reduce_kernel"),
    ("indexed elementwise", r"elementwise_kernel<128|unrolled_elementwise|elementwise_kernel_with_index"),
    ("elementwise", r"elementwise|upsample|triu|tril|arange|where"),
]
# Predicted launches, by what they are named after.
PREDICTED = [
    ("fill", r"fill|^broadcast$|iota"),
    ("convolution", r"convolution"),
    ("attention", r"attention"),
    ("product", r"dot|einsum"),
    ("batch norm", r"batch_norm"),
    ("norm", r"layer_norm|group_norm|rms_norm|normalization"),
    ("softmax", r"softmax"),
    ("loss", r"loss"),
    ("pool", r"reduce_window|select_and_scatter|pool"),
    ("optimizer", r"^map$"),
    ("dropout", r"dropout|^rng$"),
    ("embedding", r"gather|scatter|index_select"),
    ("sort", r"sort|top_k|cumsum"),
    ("concatenate", r"concatenate"),
    ("reduce", r"reduce"),
    ("indexed elementwise", r"indexed|transpose|copy"),
    ("elementwise", r""),
]
OPTIONS = {"infer": "forward", "forward": "forward", "prefill": "prefill", "decode": "decode", "train": "train"}


def kind(name, table):
    return next((k for k, pattern in table if re.search(pattern, name)), "other")


def workload(case, configs):
    """resnet50_b32_infer, llama2_7b_b1_s512_prefill, … as arguments of `orrery predict`."""
    parts = case.split("_")
    phase = OPTIONS[parts.pop()]
    arguments = []
    if parts[-1] == "fp32":
        arguments += ["--dtype", parts.pop()]
    while parts and re.fullmatch(r"[bsc]\d+", parts[-1]):
        flag = {"b": "--batch", "s": "--seq", "c": "--context"}[parts[-1][0]]
        arguments += [flag, parts.pop()[1:]]
    model = "-".join(parts).replace("resnet", "resnet-").replace("--", "-")
    if configs and os.path.exists(os.path.join(configs, model + ".json")):
        model = os.path.join(configs, model + ".json")
    return [model, "--phase", phase, *arguments]


def predicted(program, case, configs, stack, extra):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "launches.csv")
        answer = subprocess.run(
            [program, "predict", *workload(case, configs), "--on", "h200", "--stack", stack, "--kernels", path, "--json", *extra],
            capture_output=True, text=True)
        if answer.returncode:
            print(f"{case}: {answer.stderr.strip()}", file=sys.stderr)
            return None, None
        with open(path, newline="") as file:
            return json.loads(answer.stdout), list(csv.DictReader(file))


def by_kind(rows, table, name, count, time):
    kinds = collections.OrderedDict((k, [0.0, 0.0]) for k, _ in table)
    kinds["other"] = [0.0, 0.0]
    for row in rows:
        found = kinds[kind(row[name], table)]
        found[0] += count(row)
        found[1] += time(row)
    return kinds


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("table")
    arguments.add_argument("--case")
    arguments.add_argument("--stack", default="torch-eager")
    arguments.add_argument("--configs", help="folder of config.json files for models that are not in the zoo")
    arguments.add_argument("--extra", default="", help="further options of predict")
    options = arguments.parse_args()
    folder = os.path.dirname(os.path.abspath(options.table))
    lists = next(p for p in (os.path.join(folder, "torch_kernels"), os.path.join(folder, "torch")) if os.path.isdir(p))
    with open(options.table, newline="") as file:
        cases = [row for row in csv.DictReader(file) if options.case in (None, row["case"])]
    errors = collections.defaultdict(list)
    for case in cases:
        answer, launches = predicted(options.program, case["case"], options.configs, options.stack, options.extra.split())
        if answer is None:
            continue
        ours = by_kind(launches, PREDICTED, "name", lambda r: float(r["count"]),
                       lambda r: float(r["count"]) * float(r["predicted_us"]))
        sums = [sum(v[i] for v in ours.values()) for i in (0, 1)]
        truth = [float(case["kernels"]), float(case["kernel_sum_us"])]
        step = answer["latency_s"] * 1e6
        line = f"{case['case']:32} launches {sums[0]:6.0f} of {truth[0]:6.0f} {100*(sums[0]/truth[0]-1):+6.1f} %" \
               f"   kernels {sums[1]:9.0f} of {truth[1]:9.0f} us {100*(sums[1]/truth[1]-1):+6.1f} %"
        errors["launches"].append(sums[0] / truth[0] - 1)
        errors["kernels"].append(sums[1] / truth[1] - 1)
        column = "graph_us" if options.stack == "cuda-graph" else "eager_us"
        if case.get(column):
            line += f"   step {step:9.0f} of {float(case[column]):9.0f} us {100*(step/float(case[column])-1):+6.1f} %"
            errors["step"].append(step / float(case[column]) - 1)
        print(line)
        if options.case:
            with open(os.path.join(lists, case["case"] + ".kernels.csv"), newline="") as file:
                measured = by_kind(csv.DictReader(file), MEASURED, "name", lambda r: 1, lambda r: float(r["dur_us"]))
            print(f"  {'kind':20} {'launches':>9} {'predicted':>9} {'us':>10} {'predicted':>10}")
            for k in measured:
                a, b = measured[k], ours.get(k, [0, 0])
                if a[0] or b[0]:
                    print(f"  {k:20} {a[0]:9.0f} {b[0]:9.0f} {a[1]:10.1f} {b[1]:10.1f}")
    for what, values in errors.items():
        print(f"mean error of {what}: {100*sum(abs(v) for v in values)/len(values):.1f} %")


if __name__ == "__main__":
    main()
