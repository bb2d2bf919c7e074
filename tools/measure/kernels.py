#!/usr/bin/env python3
"""Times single operators on a CUDA GPU, for `orrery calibrate DEVICE --from CSV`.

  python3 kernels.py --out my_gpu.csv                  ten minutes, a useful calibration
  python3 kernels.py --out my_gpu.csv --minutes 60     again with more time: goes on where it stopped
  python3 kernels.py --out my_gpu.csv --pass-ms 15     twice the operators in the time, less settled clocks
  python3 kernels.py --out many.csv --profiled         thirty times the operators, kernels' own times
  python3 kernels.py --out power.csv --sustained       clocks and power instead: burst and sustained

Protocol. Each operator is captured into a CUDA graph of many launches over rotating inputs
that together are larger than L2, and the graph is replayed for 60 ms or more. Operators are
taken in blocks; a block is timed in three passes, each in its own shuffled order. `us` is the
median of the three, `us_min` and `us_max` their spread, `sm_mhz` the SM clock read while the
last replays ran and `watts` the board's power then. A few yardstick operators are in every
block, so that runs and cards can be put on one scale (`run` and `block` say where a row was
taken).

With --profiled, operators are launched six times each, one after the other, and a profiler tells
how long their kernels ran, without the launch and the gap between two: `profiled_us` is the median
of the last five, `kernels` the number of kernels. What they read is as warm in L2 as in the protocol
above, but the card stays cool; clock and power are one reading for a block of hundreds.
tools/calibrate/profiled_rows.py puts such rows on the scale of the others, which `orrery calibrate` wants.

The sample is drawn from a seed: the same seed gives the same operators in the same order, any
first part of it covers all families, and rows already in --out are not measured again.
"""
import argparse
import csv
import ctypes
import gzip
import json
import math
import os
import random
import sys
import time

COLUMNS = ["op", "dtype", "params", "us", "us_min", "us_max", "sm_mhz", "watts", "kernels", "run", "block"]
SUSTAINED_COLUMNS = ["op", "dtype", "params", "burst_us", "burst_mhz", "sustained_us", "sustained_mhz",
                     "sustained_watts", "run"]
PROFILED_COLUMNS = ["op", "dtype", "params", "profiled_us", "us_min", "us_max", "sm_mhz", "watts", "kernels", "run",
                    "block"]
# Below this some families have no operator at all.
LEAST_FLOPS = 1e8
PASSES = 3
BLOCK = 64
FEWEST_NODES = 48
MOST_COPIES = 64
PROFILED_BLOCK = 768
PROFILED_LAUNCHES = 6

# ------------------------------------------------------------------ the sample


def log_uniform(rng, low, high, multiple=1):
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return max(multiple, int(round(value / multiple)) * multiple)


# (n, k) of the weight matrices of GPT-2, BERT, ViT, OPT, Llama 2 and 3, Mistral, Qwen, Gemma,
# DeepSeek, whole and split over two to eight devices.
MODEL_WEIGHTS = [
    (768, 768), (2304, 768), (3072, 768), (768, 3072), (50304, 768), (1024, 1024), (3072, 1024), (4096, 1024),
    (1024, 4096), (1280, 1280), (5120, 1280), (1280, 5120), (1600, 1600), (6400, 1600), (1600, 6400), (2048, 2048),
    (6144, 2048), (8192, 2048), (2048, 8192), (2560, 2560), (10240, 2560), (2560, 10240), (4096, 4096),
    (6144, 4096), (12288, 4096), (11008, 4096), (22016, 4096), (4096, 11008), (14336, 4096), (28672, 4096),
    (4096, 14336), (32000, 4096), (128256, 4096), (5120, 5120), (15360, 5120), (13824, 5120), (27648, 5120),
    (5120, 13824), (3584, 3584), (18944, 3584), (3584, 18944), (8192, 8192), (10240, 8192), (28672, 8192),
    (57344, 8192), (8192, 28672), (1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584), (4608, 3584),
    (2048, 7168), (7168, 2048), (1536, 7168), (7168, 18432), (24576, 1536), (512, 7168), (4096, 7168),
    (152064, 3584), (5120, 25600), (51200, 5120), (3072, 3072), (8192, 3072), (3072, 8192), (1536, 4096),
]


def sample_gemm(rng, largest_flops):
    while True:
        if rng.random() < 0.35:
            n, k = rng.choice(MODEL_WEIGHTS)
            m = 2 ** rng.randint(0, 14) if rng.random() < 0.6 else log_uniform(rng, 1, 16384)
        else:
            m = log_uniform(rng, 1, 16384)
            n = log_uniform(rng, 64, 32768, 8)
            k = log_uniform(rng, 64, 32768, 8)
        if 2 * m * n * k <= largest_flops and m * n <= 2**29:
            return {"m": m, "n": n, "k": k}


def sample_aligned_gemm(rng, largest_flops):
    p = sample_gemm(rng, largest_flops)
    p["n"], p["k"] = max(64, p["n"] // 16 * 16), max(64, p["k"] // 16 * 16)
    return p


def sample_blocked_gemm(rng, largest_flops):
    while True:
        p = sample_gemm(rng, largest_flops)
        p["n"], p["k"] = max(128, p["n"] // 128 * 128), max(128, p["k"] // 128 * 128)
        if p["n"] * p["k"] <= 2**28:
            return p


def sample_bmm(rng, largest_flops):
    while True:
        b = log_uniform(rng, 2, 512)
        if rng.random() < 0.25:  # attention products, unfused
            s = rng.choice([64, 128, 197, 256, 384, 512, 1024, 2048])
            d = rng.choice([32, 64, 80, 128])
            m, n, k = rng.choice([(s, s, d), (s, d, s), (1, s, d), (1, d, s)])
        else:
            m, n, k = log_uniform(rng, 1, 4096), log_uniform(rng, 32, 4096, 8), log_uniform(rng, 16, 2048, 8)
        if 2 * b * m * n * k <= largest_flops and b * (m * k + k * n + m * n) <= 2**29:
            return {"b": b, "m": m, "n": n, "k": k}


def unaligned(rng, low, high, lanes):
    """A size whose rows do not all begin at a whole vector of so many elements."""
    step = rng.choice([step for step in (1, 1, 2, 4) if step < lanes])
    size = log_uniform(rng, low, high, step)
    return size if size % (2 * step) else size + step


def unaligned_gemm(lanes):
    def draw(rng, largest_flops):
        while True:
            m = 2 ** rng.randint(0, 14) if rng.random() < 0.5 else log_uniform(rng, 1, 16384)
            if rng.random() < 0.25:  # vocabularies, and what follows from them
                n, k = rng.choice([50257, 30522, 50265, 32003, 256206]), rng.choice([768, 1024, 1280, 1600, 2048, 4096])
                if rng.random() < 0.3:
                    n, k = k, n
            else:
                n, k = log_uniform(rng, 64, 32768, 8), log_uniform(rng, 64, 32768, 8)
                which = rng.choice(["n", "k", "both"])
                n = n if which == "k" else unaligned(rng, 16, 32768, lanes)
                k = k if which == "n" else unaligned(rng, 16, 32768, lanes)
            if (n % lanes or k % lanes) and 2 * m * n * k <= largest_flops and max(m * n, n * k) <= 2**29:
                return {"m": m, "n": n, "k": k}

    return draw


def unaligned_bmm(lanes):
    def draw(rng, largest_flops):
        while True:
            b = log_uniform(rng, 2, 512)
            if rng.random() < 0.3:  # attention over the tokens of images and sentences, unfused
                s, d = rng.choice([49, 50, 77, 145, 197, 257, 577, 730, 1500]), rng.choice([32, 64, 80, 96, 128])
                m, n, k = rng.choice([(s, s, d), (s, d, s)])
            else:
                m, n, k = log_uniform(rng, 1, 4096), log_uniform(rng, 32, 4096, 8), log_uniform(rng, 16, 2048, 8)
                which = rng.choice(["n", "k", "both"])
                n = n if which == "k" else unaligned(rng, 16, 4096, lanes)
                k = k if which == "n" else unaligned(rng, 16, 2048, lanes)
            if (n % lanes or k % lanes) and 2 * b * m * n * k <= largest_flops and b * (m * k + k * n + m * n) <= 2**29:
                return {"b": b, "m": m, "n": n, "k": k}

    return draw


def sample_conv(rng, largest_flops):
    while True:
        n = 2 ** rng.randint(0, 8)
        size = rng.choice([7, 14, 28, 56, 112])
        stride = 2 if rng.random() < 0.3 else 1
        kind = rng.random()
        if kind < 0.28:  # depthwise
            c = rng.choice([32, 64, 96, 144, 192, 240, 384, 480, 576, 672, 960, 1152])
            k, groups, r = c, c, rng.choice([3, 3, 5, 7])
        elif kind < 0.34:  # stems and patch embeddings
            c, groups = 3, 1
            size, r, stride, k = rng.choice([(224, 7, 2, 64), (224, 3, 2, 32), (224, 16, 16, 768), (224, 14, 14, 1024),
                                             (299, 3, 2, 32), (384, 16, 16, 768), (112, 7, 2, 64)])
        elif kind < 0.38:  # grouped
            groups = rng.choice([2, 4, 8, 16, 32])
            c = groups * rng.choice([4, 8, 16, 32, 64])
            k, r = c, 3
        else:
            c = rng.choice([16, 32, 64, 96, 128, 192, 256, 320, 512, 640, 1024, 2048])
            k = rng.choice([32, 48, 64, 128, 192, 256, 320, 512, 640, 1024])
            groups, r = 1, rng.choice([1, 1, 1, 3, 3, 3, 5, 7])
        pad = 0 if r in (14, 16) else r // 2
        out = (size + 2 * pad - r) // stride + 1
        flops = 2 * n * out * out * k * (c // groups) * r * r
        if flops <= largest_flops and n * size * size * c <= 2**29 and n * out * out * k <= 2**29:
            layout = "nhwc" if rng.random() < 0.95 else "nchw"
            return {"n": n, "c": c, "h": size, "w": size, "k": k, "r": r, "s": r, "stride": stride, "pad": pad,
                    "groups": groups, "layout": layout}


def sample_sdpa(rng, largest_flops):
    while True:
        heads = rng.choice([8, 12, 16, 20, 24, 28, 32, 40, 48, 64])
        share = rng.choice([1, 1, 4, 4, 8, heads])
        if heads % share:
            continue
        kv = heads // share
        d = rng.choice([64, 128, 128, 96, 80, 256]) if rng.random() < 0.3 else rng.choice([64, 128])
        if rng.random() < 0.4:  # decode
            b, s, t, causal = 2 ** rng.randint(0, 7), 1, log_uniform(rng, 64, 32768, 8), False
        else:
            b = 2 ** rng.randint(0, 6)
            s = log_uniform(rng, 64, 16384, 8) if rng.random() < 0.8 else rng.choice([77, 197, 257, 577, 1500])
            t = s if rng.random() < 0.93 else log_uniform(rng, 64, 8192, 8)
            causal = rng.random() < 0.5 and t == s
        if 4 * b * heads * s * t * d <= largest_flops and b * (heads * s + 2 * kv * t) * d <= 2**29:
            return {"b": b, "h": heads, "kv": kv, "s": s, "t": t, "d": d, "causal": causal}


def sample_shape(rng, largest=2**30):
    """Rows and columns, or one long axis; from nothing to a gigabyte."""
    while True:
        if rng.random() < 0.2:
            return [log_uniform(rng, 256, 2**28)]
        rows, columns = log_uniform(rng, 1, 65536), log_uniform(rng, 64, 16384, 8)
        if rows * columns <= largest // 4:
            return [rows, columns]


def sample_rows(rng):
    while True:
        if rng.random() < 0.3:  # tokens times hidden sizes, classes, attention rows
            columns = rng.choice([128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 8192, 12288, 16384, 32000,
                                  50257, 128256])
            rows = 2 ** rng.randint(0, 17)
        else:
            rows, columns = log_uniform(rng, 1, 65536), log_uniform(rng, 64, 16384, 8)
        if rows * columns <= 2**28:
            return [rows, columns]


def sample_elementwise(rng, _):
    return {"shape": sample_shape(rng)}


def sample_over_rows(rng, _):
    return {"shape": sample_rows(rng)}


def sample_axis(rng, _):
    while True:
        shape = [log_uniform(rng, 1, 256), log_uniform(rng, 2, 4096), log_uniform(rng, 1, 4096)]
        if math.prod(shape) <= 2**27:
            return {"shape": shape, "axis": 1}


def sample_transpose(rng, _):
    if rng.random() < 0.3:
        while True:
            shape = [log_uniform(rng, 2, 256), log_uniform(rng, 8, 4096), log_uniform(rng, 8, 4096)]
            if math.prod(shape) <= 2**27:
                return {"shape": shape}
    return {"shape": sample_rows(rng)}


def sample_permute(rng, _):
    while True:  # [batch, tokens, heads, width] to heads first, and images between their layouts
        if rng.random() < 0.7:
            shape = [2 ** rng.randint(0, 6), log_uniform(rng, 16, 8192), rng.choice([8, 12, 16, 32, 40]),
                     rng.choice([64, 128])]
            order = [0, 2, 1, 3]
        else:
            size = rng.choice([7, 14, 28, 56, 112])
            shape = [2 ** rng.randint(0, 7), rng.choice([32, 64, 128, 256, 512]), size, size]
            order = [0, 2, 3, 1]
        if math.prod(shape) <= 2**27:
            return {"shape": shape, "order": order}


def sample_small_rows(rng, _):
    while True:
        shape = [log_uniform(rng, 1, 16384), log_uniform(rng, 64, 131072, 8)]
        if math.prod(shape) <= 2**25:
            return {"shape": shape}


def sample_embedding(rng, _):
    while True:
        vocab = rng.choice([30522, 32000, 50257, 128000, 151936])
        width = rng.choice([256, 512, 768, 1024, 2048, 4096, 5120, 8192])
        tokens = log_uniform(rng, 1, 65536)
        if vocab * width <= 2**30 and tokens * width <= 2**28:
            return {"vocab": vocab, "shape": [tokens, width]}


def sample_indexed(rng, _):
    while True:
        rows, width, count = log_uniform(rng, 64, 262144), log_uniform(rng, 8, 8192, 8), log_uniform(rng, 1, 131072)
        if rows * width <= 2**28 and count * width <= 2**27:
            return {"rows": rows, "shape": [count, width]}


def sample_grouped(rng, largest_flops):
    while True:
        experts = rng.choice([4, 8, 16, 32, 64, 128])
        n, k = rng.choice([(14336, 4096), (4096, 14336), (1536, 2048), (2048, 768), (2816, 2048), (4096, 7168),
                           (7168, 2048), (5760, 2880), (2880, 2880), (8192, 5120), (1536, 4096), (2048, 1408)])
        tokens = log_uniform(rng, 8, 65536)
        skew = rng.choice([0.0, 0.6, 1.2])
        if 2 * tokens * n * k <= largest_flops and experts * n * k <= 2**31 and tokens * max(n, k) <= 2**29:
            return {"experts": experts, "tokens": tokens, "n": n, "k": k, "skew": skew}


# op, dtype, relative weight, sampler, largest FLOPs. Families whose libraries choose among many
# kernels (products, convolutions) get most; the rest as many as their intervals need.
FAMILIES = [
    ("gemm", "bf16", 13, sample_gemm, 4e12), ("gemm", "fp16", 4, sample_gemm, 4e12),
    ("gemm", "tf32", 5, sample_gemm, 2e12), ("gemm", "fp32", 5, sample_gemm, 2e11),
    ("gemm", "fp8", 4, sample_aligned_gemm, 6e12),
    ("gemm", "int8", 2, sample_aligned_gemm, 4e12), ("gemm", "int4_weight", 1.5, sample_blocked_gemm, 2e11),
    ("bmm", "bf16", 9, sample_bmm, 2e12), ("bmm", "fp16", 5, sample_bmm, 2e12), ("bmm", "tf32", 4, sample_bmm, 1e12),
    ("bmm", "fp32", 1, sample_bmm, 1e11),
    ("conv2d", "bf16", 18, sample_conv, 2e12), ("conv2d", "fp16", 7, sample_conv, 2e12),
    ("conv2d", "tf32", 9, sample_conv, 1e12), ("conv2d", "fp32", 1, sample_conv, 1e11),
    ("sdpa", "bf16", 12, sample_sdpa, 3e12), ("sdpa", "fp16", 1.5, sample_sdpa, 3e12),
    ("grouped_gemm", "bf16", 2.5, sample_grouped, 3e12),
    ("embedding", "bf16", 1.2, sample_embedding, 0), ("index_select", "bf16", 1, sample_indexed, 0),
    ("index_add", "fp32", 0.7, sample_indexed, 0), ("permute", "bf16", 1.5, sample_permute, 0),
    ("cumsum", "fp32", 0.8, sample_small_rows, 0), ("topk", "bf16", 1.2, sample_small_rows, 0),
    ("sort", "fp32", 0.8, sample_small_rows, 0), ("copy", "bf16", 0.5, sample_elementwise, 0),
]
for _op in ("add", "mul", "relu", "gelu", "silu", "tanh", "exp"):
    FAMILIES += [(_op, "bf16", 0.9, sample_elementwise, 0), (_op, "fp32", 0.6, sample_elementwise, 0)]
for _op, _weight in (("softmax", 4), ("layernorm", 3), ("rmsnorm", 3), ("reduce_sum", 4.5)):
    FAMILIES += [(_op, "bf16", _weight, sample_over_rows, 0), (_op, "fp32", _weight * 0.6, sample_over_rows, 0)]
FAMILIES += [("reduce_sum_axis0", "bf16", 1.5, sample_over_rows, 0), ("reduce_sum_axis0", "fp32", 0.8, sample_over_rows, 0),
             ("reduce_max", "bf16", 1, sample_over_rows, 0), ("reduce_sum", "bf16", 1.5, sample_axis, 0),
             ("transpose", "bf16", 3.5, sample_transpose, 0), ("transpose", "fp32", 2, sample_transpose, 0)]
# Products whose rows begin between the 16 bytes that libraries load at once, for which they have kernels apart.
UNALIGNED = [
    ("gemm", "bf16", 1.2, unaligned_gemm(8), 2e12), ("bmm", "bf16", 0.9, unaligned_bmm(8), 1e12),
    ("gemm", "fp16", 0.4, unaligned_gemm(8), 2e12), ("bmm", "fp16", 0.4, unaligned_bmm(8), 1e12),
    ("gemm", "tf32", 0.4, unaligned_gemm(4), 1e12), ("bmm", "tf32", 0.4, unaligned_bmm(4), 1e12),
    ("gemm", "fp32", 0.3, unaligned_gemm(4), 1e11), ("bmm", "fp32", 0.2, unaligned_bmm(4), 1e11),
]
FAMILIES += UNALIGNED

YARDSTICKS = [
    ("gemm", "bf16", {"m": 3072, "n": 4096, "k": 4096}), ("gemm", "bf16", {"m": 24, "n": 8192, "k": 4096}),
    ("add", "bf16", {"shape": [8192, 6144]}), ("add", "bf16", {"shape": [1024]}), ("empty", "fp32", {}),
]


def families_of(ops, dtypes, unaligned_only):
    return [f for f in (UNALIGNED if unaligned_only else FAMILIES)
            if (not ops or f[0] in ops) and (not dtypes or f[1] in dtypes)]


def sample(seed, families, most_flops):
    """The endless designed sample. Families take turns by weight, without clumps."""
    rngs = [random.Random(f"{seed}/{f[0]}/{f[1]}/{i}") for i, f in enumerate(families)]
    due = [0.5 / f[2] for f in families]
    while True:
        at = min(range(len(families)), key=lambda i: due[i])
        op, dtype, weight, draw, largest = families[at]
        due[at] += 1 / weight
        yield op, dtype, draw(rngs[at], min(largest, most_flops))


# ------------------------------------------------------------------ what an operator needs


class CannotRun(Exception):
    """Why an operator of a table is left out."""


# Parameters of operators as `orrery kernel` reads them (src/orrery/kernel/operator_kernel.cc): those an operator needs,
# then those it may have, with what they are where they are not given. A default that is a name is another parameter's.
PARAMETERS = {
    "empty": ([], {}),
    "gemm": (["m", "n", "k"], {}),
    "bmm": (["b", "m", "n", "k"], {}),
    "grouped_gemm": (["experts", "tokens", "n", "k"], {"skew": 0}),
    "conv2d": (["n", "c", "h", "w", "k", "r"],
               {"s": "r", "stride": 1, "pad": 0, "groups": 1, "layout": "nhwc", "gradient": ""}),
    "sdpa": (["b", "h", "s", "d"],
             {"t": "s", "kv": "h", "dv": "d", "causal": False, "window": 0, "paged": False, "kv_dtype": ""}),
    "embedding": (["vocab", "shape"], {}),
    "index_select": (["rows", "shape"], {}),
    "index_add": (["rows", "shape"], {}),
    "permute": (["shape", "order"], {}),
    "topk": (["shape"], {"k": 8}),
    "reduce_sum": (["shape"], {"axis": -1}),
    "reduce_max": (["shape"], {"axis": -1}),
}
for _op in ("add", "mul", "div", "pow", "add_scalar", "mul_scalar", "div_scalar", "relu", "gelu", "silu", "tanh", "exp",
            "copy", "softmax", "layernorm", "rmsnorm", "cumsum", "reduce_sum_axis0", "transpose", "sort"):
    PARAMETERS[_op] = (["shape"], {})
# Names of PyTorch's types: an old version has not all of them.
TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32", "fp8": "float8_e4m3fn",
         "int8": "int8", "int4_weight": "bfloat16"}


def is_size(value, least=1):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def check_value(name, value, rank):
    """Raises CannotRun where a parameter is not what its name asks for."""
    if name == "shape":
        good = isinstance(value, list) and value and all(is_size(v) for v in value)
    elif name == "order":
        good = isinstance(value, list) and all(is_size(v, 0) for v in value) and sorted(value) == list(range(rank))
    elif name == "axis":
        good = is_size(value, -rank) and value < rank
    elif name == "skew":
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    elif name in ("causal", "paged"):
        good = isinstance(value, (bool, int))
    elif name == "layout":
        good = value in ("nhwc", "nchw")
    elif name in ("gradient", "kv_dtype"):
        good = isinstance(value, str)
    else:
        good = is_size(value, 0 if name in ("pad", "window") else 1)
    if not good:
        raise CannotRun(f"params: '{name}' cannot be {json.dumps(value)}")


def launches_nothing(op, p):
    """Whether the operator gives a view: only axes of size one change their places."""
    if op not in ("transpose", "permute"):
        return False
    shape = p["shape"]
    order = p["order"] if op == "permute" else [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    kept = [axis for axis in order if shape[axis] != 1]
    return kept == sorted(kept)


def complete(op, dtype, params):
    """`params` with what is not given; raises CannotRun where PyTorch has no such operator, or is not asked for it here:
    what would be measured must be what the row says."""
    if op not in PARAMETERS:
        raise CannotRun(f"op '{op}' is none that this script can run")
    if dtype not in TYPES:
        raise CannotRun(f"dtype '{dtype}' is none that this script can run; it knows {', '.join(TYPES)}")
    if dtype == "int4_weight" and op != "gemm":
        raise CannotRun(f"{op} with weights of four bits is not in PyTorch")
    if not isinstance(params, dict):
        raise CannotRun("params are not a JSON object")
    needed, defaults = PARAMETERS[op]
    for name in needed:
        if name not in params:
            raise CannotRun(f"params: {op} needs '{name}'")
    for name in params:
        if name not in needed and name not in defaults:
            raise CannotRun(f"params: {op} takes no '{name}'")
    p = dict(params)
    for name, value in defaults.items():
        p.setdefault(name, p[value] if value in needed else value)
    rank = len(p["shape"]) if isinstance(p.get("shape"), list) else 0
    for name, value in p.items():
        check_value(name, value, rank)
    if op == "conv2d":
        if p["gradient"]:
            raise CannotRun("gradients of convolutions are not measured by this script")
        if p["c"] % p["groups"] or p["k"] % p["groups"]:
            raise CannotRun(f"{p['groups']} groups do not divide c={p['c']} and k={p['k']}")
        if p["r"] > p["h"] + 2 * p["pad"] or p["s"] > p["w"] + 2 * p["pad"]:
            raise CannotRun("the window is larger than the padded image")
    elif op == "sdpa":
        for name in ("window", "paged"):
            if p[name]:
                raise CannotRun(f"PyTorch's attention has no '{name}'")
        if p["kv_dtype"] not in ("", dtype):
            raise CannotRun(f"PyTorch's attention takes no keys of {p['kv_dtype']} with queries of {dtype}")
        if p["h"] % p["kv"]:
            raise CannotRun(f"{p['h']} heads are not a multiple of {p['kv']} kv heads")
        if p["s"] == 1:
            p["causal"] = False  # the last token sees all
        if p["causal"] and p["s"] != p["t"]:
            raise CannotRun("PyTorch's causal attention takes the queries for the first of the tokens, not the last")
    elif op == "transpose" and rank < 2:
        raise CannotRun("transpose needs two axes or more")
    elif op == "topk":
        p["k"] = min(p["k"], p["shape"][-1])
    elif op == "gemm" and dtype == "int8" and p["m"] <= 16:
        raise CannotRun("PyTorch's int8 product needs more than 16 rows")
    if launches_nothing(op, p):
        raise CannotRun("no kernel is launched")
    return p


# ------------------------------------------------------------------ operators


class Operators:
    """Builds operators over rotating inputs taken from large random pools."""

    # Of each type; five of them and what a block allocates fit in cards of 16 GB, too.
    LARGEST_POOL = 3 * 2**30
    POOLS_IN_MEMORY = 12

    def __init__(self, torch, rotate_bytes, memory_bytes):
        self.torch = torch
        self.rotate_bytes = rotate_bytes
        self.pool_bytes = min(self.LARGEST_POOL, memory_bytes // self.POOLS_IN_MEMORY)
        self.pools = {}
        self.profiled = False  # operators take inputs after those of the last, few copies of each
        self.taken = {}

    def element(self, dtype):
        return getattr(self.torch, TYPES[dtype])

    def bytes_of(self, element):
        return self.torch.empty((), dtype=element).element_size()

    def pool(self, element):
        if element not in self.pools:
            t = self.torch
            count = self.pool_bytes // self.bytes_of(element)
            if element == t.int8:
                self.pools[element] = t.randint(-127, 128, (count,), dtype=element, device="cuda")
            elif self.bytes_of(element) == 1:
                self.pools[element] = t.cat([t.randn(count // 8, device="cuda").to(element) for _ in range(8)])
            else:
                self.pools[element] = t.randn(count, dtype=element, device="cuda")
        return self.pools[element]

    def copies(self, sizes, element):
        """Disjoint input sets: [[flat tensor for each size], ...]."""
        pool = self.pool(element)
        itemsize = self.bytes_of(element)
        align = 512 // itemsize
        padded = [-(-s // align) * align for s in sizes]
        total = sum(padded)
        if total > pool.numel():
            raise MemoryError(f"inputs of {total * itemsize} bytes exceed the {self.pool_bytes} that are kept for them")
        n = min(MOST_COPIES, -(-self.rotate_bytes // (total * itemsize)), pool.numel() // total)
        sets, at = [], 0
        if self.profiled:
            if n < MOST_COPIES:  # none of them is left in L2 when its turn comes again
                n = min(n, PROFILED_LAUNCHES)
            elif n * total * itemsize < self.rotate_bytes / 4:  # all of them are
                n = 1
            at = self.taken.get(element, 0)
            if at + n * total > pool.numel():
                at = 0
            self.taken[element] = at + n * total
        for _ in range(max(1, n)):
            one = []
            for size, room in zip(sizes, padded):
                one.append(pool[at:at + size])
                at += room
            sets.append(one)
        return sets

    def allow(self, dtype):
        """Whether fp32 may be multiplied as TF32: asked when a product is launched."""
        self.torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        self.torch.backends.cudnn.allow_tf32 = dtype == "tf32"

    def build(self, op, dtype, params):
        """Callables that each launch the operator once, over different inputs."""
        p = complete(op, dtype, params)
        t = self.torch
        f = t.nn.functional
        element = self.element(dtype)
        if op == "empty":  # a kernel that returns at once: what a launch costs on this machine
            return [lambda: t.cuda._sleep(0)] * FEWEST_NODES
        self.allow(dtype)
        if op == "gemm":
            m, n, k = p["m"], p["n"], p["k"]
            sets = [(a.view(m, k), b.view(n, k)) for a, b in self.copies([m * k, n * k], element)]
            if dtype == "fp8":
                one = t.ones((), device="cuda")
                return [lambda a=a, b=b: t._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=t.bfloat16)
                        for a, b in sets]
            if dtype == "int8":
                return [lambda a=a, b=b: t._int_mm(a, b.t()) for a, b in sets]
            if dtype == "int4_weight":
                copies = max(1, min(16, -(-self.rotate_bytes // (n * k // 2))))
                x = [a.view(m, k) for (a,) in self.copies([m * k], t.bfloat16)]
                raw = t.randint(0, 255, (n, k // 2), dtype=t.uint8, device="cuda")
                packed = [t.ops.aten._convert_weight_to_int4pack(raw, 8).clone() for _ in range(copies)]
                scales = t.rand(k // 128, n, 2, dtype=t.bfloat16, device="cuda")
                return [lambda i=i: t.ops.aten._weight_int4pack_mm(x[i % len(x)], packed[i % copies], 128, scales)
                        for i in range(max(len(x), copies))]
            return [lambda a=a, b=b: f.linear(a, b) for a, b in sets]
        if op == "bmm":
            b, m, n, k = p["b"], p["m"], p["n"], p["k"]
            return [lambda x=x.view(b, m, k), y=y.view(b, k, n): t.bmm(x, y)
                    for x, y in self.copies([b * m * k, b * k * n], element)]
        if op == "grouped_gemm":
            e, tokens, n, k = p["experts"], p["tokens"], p["n"], p["k"]
            shares = [(i + 1) ** -p["skew"] for i in range(e)]
            edges, ends, so_far = [], [], 0.0
            for s in shares:
                so_far += s / sum(shares)
                ends.append(min(tokens, round(so_far * tokens)))
            edges = t.tensor(ends, dtype=t.int32, device="cuda")
            return [lambda x=x.view(tokens, k), w=w.view(e, n, k): t._grouped_mm(x, w.transpose(1, 2), offs=edges)
                    for x, w in self.copies([tokens * k, e * n * k], element)]
        if op == "conv2d":
            n, c, h, w, k, r, s, g = (p[x] for x in ("n", "c", "h", "w", "k", "r", "s", "groups"))

            def image(flat, a, b, y, x):
                if p["layout"] == "nhwc":
                    return flat.view(a, y, x, b).permute(0, 3, 1, 2)
                return flat.view(a, b, y, x)

            return [lambda x=image(x, n, c, h, w), y=image(y, k, c // g, r, s):
                    f.conv2d(x, y, stride=p["stride"], padding=p["pad"], groups=g)
                    for x, y in self.copies([n * c * h * w, k * (c // g) * r * s], element)]
        if op == "sdpa":
            b, h, kv, s, q_t, d, dv = (p[x] for x in ("b", "h", "kv", "s", "t", "d", "dv"))
            shared = {"enable_gqa": True} if h != kv else {}  # which old versions do not know
            return [lambda q=q.view(b, h, s, d), k=k.view(b, kv, q_t, d), v=v.view(b, kv, q_t, dv):
                    f.scaled_dot_product_attention(q, k, v, is_causal=bool(p["causal"]), **shared)
                    for q, k, v in self.copies([b * h * s * d, b * kv * q_t * d, b * kv * q_t * dv], element)]
        if op == "embedding":
            vocab, width, tokens = p["vocab"], p["shape"][-1], math.prod(p["shape"][:-1])
            sets = self.copies([vocab * width], element)
            ids = [t.randint(0, vocab, (tokens,), device="cuda") for _ in range(8)]
            return [lambda i=i: f.embedding(ids[i % 8], sets[i % len(sets)][0].view(vocab, width))
                    for i in range(max(8, len(sets)))]
        if op in ("index_select", "index_add"):
            rows, count, width = p["rows"], math.prod(p["shape"][:-1]), p["shape"][-1]
            ids = [t.randint(0, rows, (count,), device="cuda") for _ in range(8)]
            sets = self.copies([rows * width, count * width], element)
            if op == "index_select":
                return [lambda i=i: t.index_select(sets[i % len(sets)][0].view(rows, width), 0, ids[i % 8])
                        for i in range(max(8, len(sets)))]
            # Into tensors of its own: inputs are shared by all operators, and some take
            # longer over numbers that have grown out of the usual range.
            tables = [table.view(rows, width).clone() for table, _ in sets]
            return [lambda i=i: tables[i % len(sets)].index_add_(
                0, ids[i % 8], sets[i % len(sets)][1].view(count, width), alpha=1e-3) for i in range(max(8, len(sets)))]
        shape = p["shape"]
        count = math.prod(shape)
        if op in ("add", "mul", "div", "pow"):
            function = getattr(t, op)
            return [lambda x=x.view(shape), y=y.view(shape): function(x, y) for x, y in self.copies([count, count], element)]
        if op in ("layernorm", "rmsnorm"):
            width = shape[-1]
            sets = self.copies([count], element)
            y, z = self.pool(element)[:width], self.pool(element)[-width:]
            if op == "layernorm":
                return [lambda x=x.view(shape): f.layer_norm(x, (width,), y, z) for (x,) in sets]
            return [lambda x=x.view(shape): f.rms_norm(x, (width,), y) for (x,) in sets]
        unary = {
            "add_scalar": lambda x: t.add(x, 1.5), "mul_scalar": lambda x: t.mul(x, 1.5),
            "div_scalar": lambda x: t.div(x, 1.5), "relu": f.relu, "gelu": f.gelu, "silu": f.silu, "tanh": t.tanh, "exp": t.exp, "copy": t.clone,
            "softmax": lambda x: t.softmax(x, -1), "reduce_sum": lambda x: t.sum(x, p["axis"]),
            "reduce_sum_axis0": lambda x: t.sum(x, 0), "reduce_max": lambda x: t.amax(x, p["axis"]),
            "transpose": lambda x: x.transpose(-1, -2).contiguous(),
            "permute": lambda x: x.permute(p["order"]).contiguous(), "cumsum": lambda x: t.cumsum(x, -1),
            "topk": lambda x: t.topk(x, p["k"], -1), "sort": lambda x: t.sort(x, -1),
        }[op]
        return [lambda x=x.view(shape): unary(x) for (x,) in self.copies([count], element)]


class Prepared:
    """An operator captured into a graph, with the time of one launch as first seen."""

    def __init__(self, torch, pool, operators, op, dtype, params):
        launches = operators.build(op, dtype, params)
        launches[0]()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        launches[-1]()
        end.record()
        torch.cuda.synchronize()
        rough = begin.elapsed_time(end) * 1e-3 * len(launches)
        # Enough nodes that the gap between two replays, some 3 us, does not show.
        rounds = max(1, min(-(-FEWEST_NODES // len(launches)), math.ceil(8e-3 / rough)))
        self.nodes = rounds * len(launches)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            for _ in range(rounds):
                for launch in launches:
                    launch()
        # A convolution would run its whole search again under the profiler; the empty kernel is
        # the one that parts the operators there.
        self.first = launches[0] if op not in ("conv2d", "empty") else lambda: None
        self.graph.replay()
        begin.record()
        self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        self.seconds = begin.elapsed_time(end) * 1e-3
        self.torch = torch

    def run(self, seconds, nvml):
        """(seconds a launch, SM MHz and W while the last replays ran)."""
        replays = max(1, math.ceil(seconds / self.seconds))
        begin, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(replays):
            self.graph.replay()
        end.record()
        clock, watts = nvml.clock(), nvml.power()
        while not end.query():
            clock, watts = nvml.clock(), nvml.power()
            time.sleep(0.002)
        return begin.elapsed_time(end) * 1e-3 / replays / self.nodes, clock, watts


def bus_of(index):
    """Where on the PCI bus the CUDA device is: NVML counts cards in another order, and those too that
    CUDA_VISIBLE_DEVICES hides."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, bus = ctypes.c_int(), ctypes.create_string_buffer(32)
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetPCIBusId(bus, len(bus), device):
        sys.exit(f"CUDA has no device {index}")
    return bus.value.decode()


class Nvml:
    """The few readings needed from NVIDIA's management library."""

    class FieldValue(ctypes.Structure):
        _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
                    ("latency", ctypes.c_longlong), ("type", ctypes.c_int), ("result", ctypes.c_int),
                    ("value", ctypes.c_ulonglong)]

    POWER_INSTANT = 186

    def __init__(self, index):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        bus = bus_of(index)
        if self.library.nvmlInit_v2() or self.library.nvmlDeviceGetHandleByPciBusId_v2(
                bus.encode(), ctypes.byref(self.device)):
            sys.exit(f"NVIDIA's management library does not know the GPU at {bus}")

    def clock(self):
        value = ctypes.c_uint()
        self.library.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(value))
        return value.value

    def power(self):
        field = self.FieldValue(field=self.POWER_INSTANT)
        self.library.nvmlDeviceGetFieldValues(self.device, 1, ctypes.byref(field))
        if field.result == 0 and field.value:
            return (field.value & 0xFFFFFFFF) * 1e-3
        value = ctypes.c_uint()
        self.library.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(value))
        return value.value * 1e-3

    def joules(self):
        value = ctypes.c_ulonglong()
        self.library.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(value))
        return value.value * 1e-3


# What the installed PyTorch was said not to have.
told = set()


def made(wanted, make):
    """[(operator, what `make` made of it)], without those that cannot be, which are told of."""
    done = []
    for one in wanted:
        try:
            done.append((one, make(one)))
        except CannotRun:  # of a designed sample; those of a table were told of when it was read
            continue
        except Exception as error:  # versions of PyTorch refuse what they lack in many ways
            reason = str(error).split("\n")[0]
            if "CUDA error" in reason and "CUBLAS" not in reason:
                raise
            if isinstance(error, (AttributeError, TypeError)):  # as will all others of its kind
                if (one[:2], reason) not in told:
                    print(f"left out {key(*one)} and whatever else needs it: {reason}", file=sys.stderr)
                told.add((one[:2], reason))
            else:
                print(f"left out {key(*one)}: {reason}", file=sys.stderr)
    return done


def between_markers(events):
    """The (name, …) of each operator, whose last one is followed by a kernel that only waits."""
    operators, current = [], []
    for event in events:
        if "spin" in event[0] or "sleep" in event[0]:
            operators.append(current)
            current = []
        else:
            current.append(event)
    return operators


def profile_of_kernels():
    from torch.profiler import ProfilerActivity, profile

    try:
        return profile(activities=[ProfilerActivity.CUDA], acc_events=True)
    except TypeError:  # an old version, which keeps all events anyway
        return profile(activities=[ProfilerActivity.CUDA])


def kernel_names(torch, prepared):
    """The device kernels of one launch of each, from one profile of them all."""
    names = []
    try:
        with profile_of_kernels() as p:
            for one in prepared:
                one.first()
                torch.cuda.synchronize()
                one.marker()
                torch.cuda.synchronize()
        events = sorted((e for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA),
                        key=lambda e: e.time_range.start)
        names = [[name for (name,) in kernels] for kernels in between_markers((e.name,) for e in events)]
    except Exception as error:  # a profile is a convenience, not the measurement
        print(f"profiling failed: {error}", file=sys.stderr)
    return names if len(names) == len(prepared) else [[] for _ in prepared]


class Profiled:
    """What a profiler says of operators launched one after the other."""

    def __init__(self, torch, operators, nvml):
        self.torch, self.operators, self.nvml = torch, operators, nvml

    def rounds(self, launches):
        """How often to launch: each copy, where they are many, then those that count."""
        return (len(launches) if len(launches) > PROFILED_LAUNCHES else 0) + PROFILED_LAUNCHES

    def run(self, wanted):
        """[(op, dtype, params), [seconds of each launch], number of its kernels, MHz, W]."""
        def launches_of(one):
            launches = self.operators.build(*one)
            launches[0]()
            return launches

        ready = made(wanted, launches_of)
        self.torch.cuda.synchronize()
        with profile_of_kernels() as p:
            for (_, dtype, _), launches in ready:
                self.operators.allow(dtype)
                for i in range(self.rounds(launches)):
                    launches[i % len(launches)]()
                self.torch.cuda._sleep(1000)
            clock, watts = self.nvml.clock(), self.nvml.power()
            self.torch.cuda.synchronize()
        on_device = self.torch.autograd.DeviceType.CUDA
        events = sorted((e.start_ns(), e.duration_ns(), e.name()) for e in p.profiler.kineto_results.events()
                        if e.device_type() == on_device and not e.name().startswith("Context Sync"))
        answers = between_markers((name, duration) for _, duration, name in events)
        if len(answers) != len(ready):
            print(f"left out {len(ready)} operators: the profile has {len(answers)}", file=sys.stderr)
            return []
        found = []
        for (one, launches), kernels in zip(ready, answers):
            rounds = self.rounds(launches)
            each = len(kernels) // rounds
            last = [kernels[i * each:(i + 1) * each] for i in range(rounds)][-PROFILED_LAUNCHES + 1:]
            if each * rounds != len(kernels) or any([n for n, _ in l] != [n for n, _ in last[0]] for l in last):
                print(f"left out {key(*one)}: its launches differ", file=sys.stderr)
            elif each:
                found.append((one, [sum(d for _, d in launch) * 1e-9 for launch in last], each, clock, watts))
        return found


# ------------------------------------------------------------------ running


def key(op, dtype, params):
    return op, dtype, json.dumps(params)


def rows_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as source:
        yield from csv.DictReader(source)


def keys_of(path):
    return {(r["op"], r["dtype"], as_written(r["params"])) for r in rows_of(path)}


def as_written(params):
    """Params as this script writes them, whatever spaces another has put between them."""
    try:
        return json.dumps(json.loads(params))
    except (TypeError, ValueError):  # of a row that is none, which equals no operator
        return params


def columns_of(path):
    with open(path, newline="") as source:
        return next(csv.reader(source), [])


def read_sample(path):
    """Operators of a table; those that cannot be run are told of with their line."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="", encoding="utf-8-sig") as source:
        table = csv.DictReader(source)
        missing = [c for c in ("op", "dtype", "params") if c not in (table.fieldnames or [])]
        if missing:
            sys.exit(f"{path}: there is no column '{missing[0]}'")
        operators = []
        for row in table:
            try:
                one = row["op"], row["dtype"], json.loads(row["params"] or "{}")
                complete(*one)
                operators.append(one)
            except (CannotRun, ValueError) as error:
                print(f"{path}:{table.line_num}: left out: {error}", file=sys.stderr)
        return operators


def drop_half_row(path):
    """Cuts off what a run that was killed has left of a row."""
    with open(path, "rb+") as table:
        text = table.read()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            print(f"{path}: its last row is not whole and measured again", file=sys.stderr)
            table.truncate(whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="CSV to write; rows already in it are kept and not measured again")
    parser.add_argument("--minutes", type=float, default=10, help="how long to go on (10)")
    parser.add_argument("--pass-ms", type=float, default=60, help="how long a pass replays an operator (60)")
    parser.add_argument("--profiled", action="store_true", help="kernels' own times, of many more operators")
    parser.add_argument("--most-flops", type=float, default=math.inf, help="leave out operators of more (none)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (1)")
    parser.add_argument("--ops", default="", help="only these operators, by commas")
    parser.add_argument("--dtypes", default="", help="only these types, by commas")
    parser.add_argument("--unaligned", action="store_true", help="only products of sizes that are no multiple of 16 bytes")
    parser.add_argument("--from", dest="source", help="measure the operators of this CSV instead of a designed sample")
    parser.add_argument("--exclude", action="append", default=[], help="CSV whose operators are never measured")
    parser.add_argument("--sustained", action="store_true", help="burst and sustained time, clock and power of each")
    parser.add_argument("--run", default="", help="name of this run, kept with each row (the time of day)")
    parser.add_argument("--device", type=int, default=0, help="which GPU (0)")
    options = parser.parse_args()
    if options.sustained and options.profiled:
        parser.error("--sustained and --profiled are two protocols: choose one")
    if options.source and (options.ops or options.dtypes or options.unaligned or options.most_flops < math.inf):
        parser.error("--ops, --dtypes, --unaligned and --most-flops are for the designed sample, not for --from")
    if options.most_flops < LEAST_FLOPS:
        parser.error(f"--most-flops must be at least {LEAST_FLOPS:g}")
    only = [set(filter(None, names.split(","))) for names in (options.ops, options.dtypes)]
    families = families_of(*only, options.unaligned)
    if not families:
        parser.error(f"no {'product of odd sizes' if options.unaligned else 'operator'} of --ops {options.ops} has a type "
                     f"of --dtypes {options.dtypes}")

    import torch

    if not 0 <= options.device < torch.cuda.device_count():
        sys.exit(f"PyTorch {torch.__version__} sees {torch.cuda.device_count()} CUDA devices, none of them {options.device}")
    torch.cuda.set_device(options.device)
    torch.backends.cudnn.benchmark = True  # as those who time convolutions run them
    nvml = Nvml(options.device)
    properties = torch.cuda.get_device_properties(options.device)
    run = options.run or time.strftime("%Y%m%d-%H%M")
    # Versions before 2.5 do not say; the largest L2 they met is Ada's of 72 MiB.
    l2_bytes = getattr(properties, "L2_cache_size", 72 << 20)
    print(f"{properties.name}, {properties.multi_processor_count} SMs, L2 {l2_bytes >> 20} MiB, "
          f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, run {run}", file=sys.stderr)
    operators = Operators(torch, 2 * l2_bytes, properties.total_memory)
    columns = SUSTAINED_COLUMNS if options.sustained else PROFILED_COLUMNS if options.profiled else COLUMNS
    if os.path.exists(options.out) and columns_of(options.out) not in ([], columns):
        sys.exit(f"{options.out} was measured by another protocol: its columns are not {','.join(columns)}")
    fresh = not os.path.exists(options.out) or os.path.getsize(options.out) == 0
    if not fresh:
        drop_half_row(options.out)
    done = set() if fresh else keys_of(options.out)
    excluded = set().union(*(keys_of(path) for path in options.exclude)) if options.exclude else set()
    deadline = time.monotonic() + 60 * options.minutes
    stream = iter(read_sample(options.source)) if options.source else sample(
        options.seed, families, options.most_flops)
    order = random.Random(options.seed)
    pool = torch.cuda.graph_pool_handle()
    light = Prepared(torch, pool, operators, "add", "bf16", {"shape": [1024]})
    operators.profiled = options.profiled
    block_size = PROFILED_BLOCK if options.profiled else BLOCK
    written = 0
    with open(options.out, "a", newline="") as sink:
        writer = csv.writer(sink)
        if fresh:
            writer.writerow(columns)
        block = 0
        exhausted = False
        while time.monotonic() < deadline and not exhausted:
            wanted = [] if options.source or options.sustained else [
                one for one in YARDSTICKS if not options.profiled or one[0] != "empty"]
            yardsticks = len(wanted)
            while len(wanted) < block_size + yardsticks:
                one = next(stream, None)
                if one is None:
                    exhausted = True
                    break
                # A profiler sees no launch, and a kernel that does nothing is its marker.
                if options.profiled and one[0] == "empty":
                    continue
                if key(*one) not in done and key(*one) not in excluded:
                    done.add(key(*one))
                    wanted.append(one)
            if options.profiled:
                for (op, dtype, params), times, count, mhz, watts in Profiled(torch, operators, nvml).run(wanted):
                    times.sort()
                    writer.writerow([op, dtype, json.dumps(params), *(f"{t * 1e6:.3f}" for t in (
                        times[len(times) // 2], times[0], times[-1])), mhz, f"{watts:.0f}", count, run, block])
                    written += 1
                wanted = []
            prepared = made(wanted, lambda one: Prepared(torch, pool, operators, *one))
            if options.sustained:
                for (op, dtype, params), graph in prepared:
                    light.run(0.15, nvml)
                    burst, _, _ = graph.run(0.008, nvml)
                    burst_mhz = nvml.clock()
                    graph.run(0.4, nvml)
                    joules, start = nvml.joules(), time.monotonic()
                    sustained, mhz, _ = graph.run(0.9, nvml)
                    watts = (nvml.joules() - joules) / (time.monotonic() - start)
                    writer.writerow([op, dtype, json.dumps(params), f"{burst * 1e6:.3f}", burst_mhz,
                                     f"{sustained * 1e6:.3f}", mhz, f"{watts:.0f}", run])
                    written += 1
            elif prepared:
                for _, graph in prepared:
                    graph.marker = lambda: torch.cuda._sleep(1000)
                names = kernel_names(torch, [graph for _, graph in prepared])
                seen = [[] for _ in prepared]
                for _ in range(PASSES):
                    turn = list(range(len(prepared)))
                    order.shuffle(turn)
                    for i in turn:
                        seen[i].append(prepared[i][1].run(options.pass_ms * 1e-3, nvml))
                for ((op, dtype, params), _), passes, called in zip(prepared, seen, names):
                    passes.sort()
                    middle = passes[len(passes) // 2]
                    writer.writerow([op, dtype, json.dumps(params), f"{middle[0] * 1e6:.3f}", f"{passes[0][0] * 1e6:.3f}",
                                     f"{passes[-1][0] * 1e6:.3f}", middle[1], f"{middle[2]:.0f}",
                                     "|".join(c[:90] for c in called[-6:]), run, block])
                    written += 1
            sink.flush()
            del prepared
            block += 1
            print(f"\r{written} rows, block {block}, {max(0, deadline - time.monotonic()) / 60:.1f} minutes left ",
                  end="\n" if not sys.stderr.isatty() else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
