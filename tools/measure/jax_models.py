#!/usr/bin/env python3
"""Times whole programs that JAX and XLA run on a CUDA GPU, and keeps what they were made of.

  python3 jax_models.py --out FOLDER                     all cases, as many as fit in --minutes
  python3 jax_models.py --out FOLDER --cases vit,decoder   those whose names contain one of these
  python3 jax_models.py --out FOLDER --sample 60 --seed 1  programs drawn at random (jax_samples.py), timed briefly

FOLDER/models.csv gets one row a case, in the columns of the project's tables of whole programs:
`pipe_us` is the time of a call when calls are queued back to back for a second and more, `sync_us`
that of one call and a wait (with its tenth and ninetieth percentile), `energy_mj` the board's
energy a call in the first loop, the bytes are those of XLA's buffer assignment, `kernel_sum_us` and
`kernels` the time and number of the device kernels of a call as profiled, `busy_us` the time in
which any of them ran. FOLDER/models.tar.gz
holds of each case its StableHLO module (.mlir), the optimised HLO (.hlo) and its kernels in order
(.kernels.csv: start and duration in us, name, HLO instruction, stream). With --buffers it also
has what XLA says of its buffers (.buffers.txt).

Numbers are drawn at random (zeros would save power), bfloat16 unless a name says otherwise.
"""
import argparse
import csv
import functools
import glob
import io
import os
import re
import shutil
import statistics
import sys
import tarfile
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy
from jax import lax
from jaxlib import xla_client

from kernels import Nvml

COLUMNS = ["case", "sync_us", "sync_p10_us", "sync_p90_us", "pipe_us", "iters", "energy_mj", "arg_bytes", "out_bytes",
           "temp_bytes", "alias_bytes", "peak_bytes", "hlo_fusions", "hlo_customcalls", "kernel_sum_us", "busy_us",
           "kernels",
           "sm_mhz", "compile_s"]
BF16 = jnp.bfloat16

# ------------------------------------------------------------------ layers


def shape_of(*shape, dtype=BF16):
    return jax.ShapeDtypeStruct(shape, dtype)


def rms_norm(x, scale):
    y = x.astype(jnp.float32)
    y = y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5)
    return y.astype(x.dtype) * scale


def layer_norm(x, scale, bias):
    y = x.astype(jnp.float32)
    y = y - jnp.mean(y, -1, keepdims=True)
    y = y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5)
    return y.astype(x.dtype) * scale + bias


def attention(q, k, v, causal, fused):
    """[b, s, heads, width], keys and values perhaps of fewer heads."""
    if fused:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")
    return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="xla")


def rotate(x, position):
    half = x.shape[-1] // 2
    angle = position[:, None] * (10000.0 ** (-jnp.arange(half) / half))[None, :]
    sin, cos = jnp.sin(angle)[None, :, None, :].astype(x.dtype), jnp.cos(angle)[None, :, None, :].astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def convolve(x, w, stride=1, groups=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                    feature_group_count=groups)


def cross_entropy(logits, labels):
    logits = logits.astype(jnp.float32)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0])


# ------------------------------------------------------------------ models: shapes of weights, and a function


class Decoder:
    """Llama's kind: grouped queries, gated feed-forward, perhaps experts."""

    def __init__(self, layers, width, heads, kv, inner, vocab, experts=0, chosen=0, head=None, fused=False):
        self.layers, self.width, self.heads, self.kv, self.inner, self.vocab = layers, width, heads, kv, inner, vocab
        self.experts, self.chosen, self.head, self.fused = experts, chosen, head or width // heads, fused

    def weights(self):
        w, h = self.width, self.head
        e = (self.experts,) if self.experts else ()
        layer = {"n1": shape_of(w), "n2": shape_of(w), "q": shape_of(w, self.heads * h), "k": shape_of(w, self.kv * h),
                 "v": shape_of(w, self.kv * h), "o": shape_of(self.heads * h, w), "gate": shape_of(*e, w, self.inner),
                 "up": shape_of(*e, w, self.inner), "down": shape_of(*e, self.inner, w)}
        if self.experts:
            layer["router"] = shape_of(w, self.experts)
        return {"embed": shape_of(self.vocab, w), "layers": [dict(layer) for _ in range(self.layers)],
                "norm": shape_of(w), "head": shape_of(w, self.vocab)}

    def feed_forward(self, x, p):
        if not self.experts:
            return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]
        b, s, w = x.shape
        flat = x.reshape(b * s, w)
        share, which = lax.top_k(jax.nn.softmax((flat @ p["router"]).astype(jnp.float32)), self.chosen)
        order = jnp.argsort(which.reshape(-1))
        rows = flat[order // self.chosen]
        sizes = jnp.bincount(which.reshape(-1), length=self.experts).astype(jnp.int32)
        y = jax.nn.silu(lax.ragged_dot(rows, p["gate"], sizes)) * lax.ragged_dot(rows, p["up"], sizes)
        y = lax.ragged_dot(y, p["down"], sizes) * share.reshape(-1)[order][:, None].astype(x.dtype)
        return jnp.zeros_like(flat).at[order // self.chosen].add(y).reshape(b, s, w)

    def forward(self, p, tokens, cache=None, at=None):
        x = p["embed"][tokens]
        b, s = tokens.shape
        position = jnp.arange(s) if at is None else at + jnp.arange(s)
        kept = []
        for i, l in enumerate(p["layers"]):
            y = rms_norm(x, l["n1"])
            q = rotate((y @ l["q"]).reshape(b, s, self.heads, self.head), position)
            k = rotate((y @ l["k"]).reshape(b, s, self.kv, self.head), position)
            v = (y @ l["v"]).reshape(b, s, self.kv, self.head)
            if cache is not None:
                k = lax.dynamic_update_slice(cache[i][0], k, (0, at, 0, 0))
                v = lax.dynamic_update_slice(cache[i][1], v, (0, at, 0, 0))
                kept.append((k, v))
            y = attention(q, k, v, cache is None, self.fused)
            x = x + y.reshape(b, s, -1) @ l["o"]
            x = x + self.feed_forward(rms_norm(x, l["n2"]), l)
        x = rms_norm(x, p["norm"])
        return x, kept

    def prefill(self, b, s):
        def f(p, tokens):
            x, _ = self.forward(p, tokens)
            return x[:, -1] @ p["head"]
        return f, (self.weights(), shape_of(b, s, dtype=jnp.int32)), ()

    def decode(self, b, context):
        def f(p, cache, tokens, at):
            x, cache = self.forward(p, tokens, cache, at)
            return x[:, 0] @ p["head"], cache
        one = shape_of(b, context, self.kv, self.head)
        return f, (self.weights(), [(one, one)] * self.layers, shape_of(b, 1, dtype=jnp.int32),
                   shape_of(dtype=jnp.int32)), (1,)

    def loss(self, p, tokens):
        x, _ = self.forward(p, tokens)
        return cross_entropy(x[:, :-1] @ p["head"], tokens[:, 1:])

    def train(self, b, s):
        return training(self.loss, self.weights(), shape_of(b, s, dtype=jnp.int32))


class Encoder:
    """BERT's and ViT's kind."""

    def __init__(self, layers, width, heads, inner, vocab=0, patch=0, classes=0, fused=False):
        self.layers, self.width, self.heads, self.inner = layers, width, heads, inner
        self.vocab, self.patch, self.classes, self.fused = vocab, patch, classes, fused

    def weights(self):
        w, i = self.width, self.inner
        layer = {"s1": shape_of(w), "b1": shape_of(w), "s2": shape_of(w), "b2": shape_of(w), "qkv": shape_of(w, 3 * w),
                 "bqkv": shape_of(3 * w), "o": shape_of(w, w), "bo": shape_of(w), "in": shape_of(w, i),
                 "bin": shape_of(i), "out": shape_of(i, w), "bout": shape_of(w)}
        p = {"layers": [dict(layer) for _ in range(self.layers)], "s": shape_of(w), "b": shape_of(w)}
        if self.vocab:
            p |= {"embed": shape_of(self.vocab, w), "position": shape_of(512, w)}
        if self.patch:
            p |= {"patch": shape_of(self.patch, self.patch, 3, w)}
        if self.classes:
            p |= {"classes": shape_of(w, self.classes)}
        return p

    def blocks(self, p, x):
        b, s, w = x.shape
        for l in p["layers"]:
            qkv = layer_norm(x, l["s1"], l["b1"]) @ l["qkv"] + l["bqkv"]
            q, k, v = (t.reshape(b, s, self.heads, -1) for t in jnp.split(qkv, 3, -1))
            x = x + attention(q, k, v, False, self.fused).reshape(b, s, w) @ l["o"] + l["bo"]
            y = jax.nn.gelu(layer_norm(x, l["s2"], l["b2"]) @ l["in"] + l["bin"])
            x = x + y @ l["out"] + l["bout"]
        return layer_norm(x, p["s"], p["b"])

    def forward(self, p, x):
        if self.patch:
            x = lax.conv_general_dilated(x, p["patch"], (self.patch, self.patch), "VALID",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = x.reshape(x.shape[0], -1, self.width)
        else:
            x = p["embed"][x] + p["position"][: x.shape[1]]
        x = self.blocks(p, x)
        return jnp.mean(x, 1) @ p["classes"] if self.classes else x @ p["embed"].T

    def input(self, b, size):
        return shape_of(b, size, size, 3) if self.patch else shape_of(b, size, dtype=jnp.int32)

    def infer(self, b, size):
        return self.forward, (self.weights(), self.input(b, size)), ()

    def train(self, b, size):
        labels = shape_of(b, dtype=jnp.int32) if self.classes else shape_of(b, size, dtype=jnp.int32)

        def loss(p, x, y):
            return cross_entropy(self.forward(p, x), y)
        return training(loss, self.weights(), self.input(b, size), labels)


class DiffusionTransformer:
    def __init__(self, layers, width, heads):
        self.layers, self.width, self.heads = layers, width, heads

    def weights(self):
        w = self.width
        layer = {"mod": shape_of(w, 6 * w), "qkv": shape_of(w, 3 * w), "o": shape_of(w, w), "in": shape_of(w, 4 * w),
                 "out": shape_of(4 * w, w)}
        return {"patch": shape_of(16, w), "time": shape_of(256, w), "layers": [dict(layer) for _ in range(self.layers)],
                "final": shape_of(w, 32)}

    def infer(self, b, size):
        def f(p, latent, t):
            angle = t[:, None] * jnp.exp(-jnp.arange(128) / 16.0)[None, :]
            c = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1).astype(BF16) @ p["time"]
            x = latent.reshape(b, size // 2, 2, size // 2, 2, 4).transpose(0, 1, 3, 2, 4, 5).reshape(b, -1, 16) @ p["patch"]
            one, zero = jnp.ones(self.width, BF16), jnp.zeros(self.width, BF16)
            for l in p["layers"]:
                s1, b1, g1, s2, b2, g2 = jnp.split((jax.nn.silu(c) @ l["mod"])[:, None], 6, -1)
                y = layer_norm(x, one, zero) * (1 + s1) + b1
                q, k, v = (z.reshape(b, -1, self.heads, self.width // self.heads) for z in jnp.split(y @ l["qkv"], 3, -1))
                x = x + g1 * (attention(q, k, v, False, False).reshape(x.shape) @ l["o"])
                y = layer_norm(x, one, zero) * (1 + s2) + b2
                x = x + g2 * (jax.nn.gelu(y @ l["in"]) @ l["out"])
            return layer_norm(x, one, zero) @ p["final"]
        return f, (self.weights(), shape_of(b, size, size, 4), shape_of(b, dtype=jnp.float32)), ()


class ConvNet:
    """Stages of residual blocks: bottlenecks (ResNet), inverted ones with depthwise windows
    (MobileNet), or wide depthwise windows and layer norms (ConvNeXt)."""

    def __init__(self, kind, stem, stages, classes=1000):
        self.kind, self.stem, self.stages, self.classes = kind, stem, stages, classes

    def plan(self):
        channels = self.stem
        for width, count, stride in self.stages:
            for i in range(count):
                yield channels, width, stride if i == 0 else 1
                channels = width

    def weights(self):
        def conv(r, a, b):
            return {"w": shape_of(r, r, a, b), "scale": shape_of(b), "bias": shape_of(b)}
        blocks = []
        for a, b, stride in self.plan():
            if self.kind == "bottleneck":
                block = {"a": conv(1, a, b // 4), "b": conv(3, b // 4, b // 4), "c": conv(1, b // 4, b)}
            elif self.kind == "inverted":
                block = {"a": conv(1, a, 6 * a), "b": conv(3, 1, 6 * a), "c": conv(1, 6 * a, b)}
            else:
                block = {"b": conv(7, 1, a), "up": shape_of(a, 4 * a), "down": shape_of(4 * a, b)}
            if a != b or stride > 1:
                block["skip"] = conv(1, a, b)
            blocks.append(block)
        r = 7 if self.kind == "bottleneck" else 3
        return {"stem": conv(r, 3, self.stem), "blocks": blocks, "classes": shape_of(self.stages[-1][0], self.classes)}

    def forward(self, p, x, norm):
        def conv(x, c, stride=1, groups=1, act=True):
            y = norm(convolve(x, c["w"], stride, groups), c)
            return jax.nn.relu(y) if act else y
        x = conv(x, p["stem"], 2)
        if self.kind == "bottleneck":
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for (a, b, stride), l in zip(self.plan(), p["blocks"]):
            if self.kind == "bottleneck":
                y = conv(conv(conv(x, l["a"]), l["b"], stride), l["c"], act=False)
            elif self.kind == "inverted":
                y = conv(conv(conv(x, l["a"]), l["b"], stride, 6 * a), l["c"], act=False)
            else:
                y = convolve(x, l["b"]["w"], stride, a)
                y = jax.nn.gelu(layer_norm(y, l["b"]["scale"], l["b"]["bias"]) @ l["up"]) @ l["down"]
            skip = conv(x, l["skip"], stride, act=False) if "skip" in l else x
            x = jax.nn.relu(y + skip) if self.kind == "bottleneck" else y + skip
        return jnp.mean(x, (1, 2)) @ p["classes"]

    def infer(self, b, size):
        def f(p, x):
            return self.forward(p, x, lambda y, c: y * c["scale"] + c["bias"])
        return f, (self.weights(), shape_of(b, size, size, 3)), ()

    def train(self, b, size):
        def norm(y, c):
            z = y.astype(jnp.float32)
            mean, square = jnp.mean(z, (0, 1, 2)), jnp.mean(z * z, (0, 1, 2))
            z = (z - mean) * lax.rsqrt(square - mean * mean + 1e-5)
            return z.astype(y.dtype) * c["scale"] + c["bias"]

        def loss(p, x, labels):
            return cross_entropy(self.forward(p, x, norm), labels)
        return training(loss, self.weights(), shape_of(b, size, size, 3), shape_of(b, dtype=jnp.int32))


class UNet:
    """Stable Diffusion's kind: convolutions with group norms, attention at the lower resolutions."""

    def __init__(self, widths, attended):
        self.widths, self.attended = widths, attended

    def weights(self):
        def block(a, b):
            p = {"n1": shape_of(a), "c1": shape_of(3, 3, a, b), "n2": shape_of(b), "c2": shape_of(3, 3, b, b)}
            return p | ({"skip": shape_of(1, 1, a, b)} if a != b else {})

        def attend(w):
            return {"n": shape_of(w), "qkv": shape_of(w, 3 * w), "o": shape_of(w, w), "up": shape_of(w, 8 * w),
                    "down": shape_of(4 * w, w)}
        w = self.widths
        down = [[block(w[max(0, i - 1)] if j == 0 else w[i], w[i]) for j in range(2)] for i in range(len(w))]
        up = [[block(w[min(len(w) - 1, i + 1)] + w[i] if j == 0 else w[i], w[i]) for j in range(2)] for i in range(len(w))]
        att = [attend(x) if i in self.attended else {} for i, x in enumerate(w)]
        return {"in": shape_of(3, 3, 4, w[0]), "down": down, "up": up, "att_down": att,
                "att_up": [dict(a) for a in att], "out": shape_of(3, 3, w[0], 4)}

    def infer(self, b, size):
        def norm(x, scale, groups=32):
            s = x.shape
            y = x.astype(jnp.float32).reshape(s[0], -1, groups, s[-1] // groups)
            mean, var = jnp.mean(y, (1, 3), keepdims=True), jnp.var(y, (1, 3), keepdims=True)
            return ((y - mean) * lax.rsqrt(var + 1e-5)).reshape(s).astype(x.dtype) * scale

        def block(x, p):
            y = convolve(jax.nn.silu(norm(x, p["n1"])), p["c1"])
            y = convolve(jax.nn.silu(norm(y, p["n2"])), p["c2"])
            return y + (convolve(x, p["skip"]) if "skip" in p else x)

        def attend(x, p):
            if not p:
                return x
            n, h, w, c = x.shape
            y = norm(x, p["n"]).reshape(n, h * w, c)
            q, k, v = (t.reshape(n, h * w, 8, c // 8) for t in jnp.split(y @ p["qkv"], 3, -1))
            y = attention(q, k, v, False, False).reshape(n, h * w, c) @ p["o"]
            a, g = jnp.split(y @ p["up"], 2, -1)
            return x + ((a * jax.nn.gelu(g)) @ p["down"]).reshape(x.shape)

        def f(p, x):
            x = convolve(x, p["in"])
            kept = []
            for i, blocks in enumerate(p["down"]):
                for l in blocks:
                    x = attend(block(x, l), p["att_down"][i])
                kept.append(x)
                if i + 1 < len(self.widths):
                    x = lax.reduce_window(x, jnp.array(0, x.dtype), lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") * 0.25
            for i in reversed(range(len(self.widths))):
                if i + 1 < len(self.widths):
                    x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
                x = jnp.concatenate([x, kept[i]], -1)
                for l in p["up"][i]:
                    x = attend(block(x, l), p["att_up"][i])
            return convolve(jax.nn.silu(x), p["out"])
        return f, (self.weights(), shape_of(b, size, size, 4)), ()


class Recommender:
    """DLRM's kind: table look-ups, their products, and a perceptron."""

    def __init__(self, tables, rows, width, layers):
        self.tables, self.rows, self.width, self.layers = tables, rows, width, layers

    def infer(self, b):
        pairs = (self.tables + 1) * (self.tables + 2) // 2
        sizes = [self.width + pairs, *self.layers, 1]
        p = {"tables": [shape_of(self.rows, self.width) for _ in range(self.tables)], "dense": shape_of(13, self.width),
             "top": [shape_of(a, c) for a, c in zip(sizes, sizes[1:])]}

        def f(p, dense, which):
            x = jax.nn.relu(dense @ p["dense"])
            features = jnp.stack([x] + [t[which[:, i]] for i, t in enumerate(p["tables"])], 1)
            crossed = jnp.einsum("bid,bjd->bij", features, features)
            i, j = jnp.tril_indices(self.tables + 1)
            x = jnp.concatenate([x, crossed[:, i, j]], -1)
            for k, w in enumerate(p["top"]):
                x = x @ w if k + 1 == len(p["top"]) else jax.nn.relu(x @ w)
            return jax.nn.sigmoid(x)
        return f, (p, shape_of(b, 13), shape_of(b, self.tables, dtype=jnp.int32)), ()


class Recurrent:
    def __init__(self, layers, width):
        self.layers, self.width = layers, width

    def infer(self, b, s):
        w = self.width
        p = [{"x": shape_of(w, 4 * w), "h": shape_of(w, 4 * w)} for _ in range(self.layers)]

        def f(p, x):
            for l in p:
                def step(state, gates, l=l):
                    h, c = state
                    i, g, o, k = jnp.split(gates + h @ l["h"], 4, -1)
                    c = jax.nn.sigmoid(k) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                    h = jax.nn.sigmoid(o) * jnp.tanh(c)
                    return (h, c), h
                zero = jnp.zeros((b, w), BF16)
                _, x = lax.scan(step, (zero, zero), x @ l["x"])
            return x[-1]
        return f, (p, shape_of(s, b, w)), ()


def training(loss, weights, *batch):
    """One step of Adam with moments in float32."""
    def step(state, *batch):
        p, m, v, n = state
        value, g = jax.value_and_grad(loss)(p, *batch)
        n = n + 1

        def update(p, g, m, v):
            g = g.astype(jnp.float32)
            m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
            return (p.astype(jnp.float32) - 1e-6 * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype), m, v
        leaves, tree = jax.tree.flatten(p)
        out = [update(*x) for x in zip(leaves, jax.tree.leaves(g), jax.tree.leaves(m), jax.tree.leaves(v))]
        p, m, v = (jax.tree.unflatten(tree, [o[i] for o in out]) for i in range(3))
        return (p, m, v, n), value
    moments = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, jnp.float32), weights)
    return step, ((weights, moments, moments, shape_of(dtype=jnp.int32)), *batch), (0,)


LLAMA3_8B = dict(layers=32, width=4096, heads=32, kv=8, inner=14336, vocab=128256)
LLAMA3_1B = dict(layers=16, width=2048, heads=32, kv=8, inner=8192, vocab=128256, head=64)
QWEN_05B = dict(layers=24, width=896, heads=14, kv=2, inner=4864, vocab=151936, head=64)
MOE_SMALL = dict(layers=12, width=2048, heads=16, kv=4, inner=1024, vocab=32000, experts=32, chosen=4)
LLAMA3_3B = dict(layers=8, width=3072, heads=24, kv=8, inner=8192, vocab=128256)
LLAMA_13B = dict(layers=4, width=5120, heads=40, kv=40, inner=13824, vocab=32000)
LLAMA_70B = dict(layers=2, width=8192, heads=64, kv=8, inner=28672, vocab=32000)
MIXTRAL = dict(layers=4, width=4096, heads=32, kv=8, inner=14336, vocab=32000, experts=8, chosen=2)
RESNET = [(256, 3, 1), (512, 4, 2), (1024, 6, 2), (2048, 3, 2)]
RESNET101 = [(256, 3, 1), (512, 4, 2), (1024, 23, 2), (2048, 3, 2)]
MOBILENET = [(16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]
CONVNEXT = [(96, 3, 2), (192, 3, 2), (384, 9, 2), (768, 3, 2)]
VIT_B = dict(layers=12, width=768, heads=12, inner=3072, patch=16, classes=1000)
VIT_L = dict(layers=24, width=1024, heads=16, inner=4096, patch=16, classes=1000)
BERT_L = dict(layers=24, width=1024, heads=16, inner=4096, vocab=30522)
GPT2_M = dict(layers=24, width=1024, heads=16, kv=16, inner=2816, vocab=50304)

CASES = {
    "decoder_8b_b1_s1024_prefill": lambda: Decoder(**LLAMA3_8B).prefill(1, 1024),
    "decoder_8b_b4_s512_prefill": lambda: Decoder(**LLAMA3_8B).prefill(4, 512),
    "decoder_8b_b1_s4096_fused_prefill": lambda: Decoder(**LLAMA3_8B, fused=True).prefill(1, 4096),
    "decoder_8b_b1_c2048_decode": lambda: Decoder(**LLAMA3_8B).decode(1, 2048),
    "decoder_8b_b16_c2048_decode": lambda: Decoder(**LLAMA3_8B).decode(16, 2048),
    "decoder_8b_b64_c1024_decode": lambda: Decoder(**LLAMA3_8B).decode(64, 1024),
    "decoder_1b_b8_s512_prefill": lambda: Decoder(**LLAMA3_1B).prefill(8, 512),
    "decoder_1b_b4_s1024_train": lambda: Decoder(**LLAMA3_1B).train(4, 1024),
    "decoder_05b_b1_s128_prefill": lambda: Decoder(**QWEN_05B).prefill(1, 128),
    "decoder_05b_b1_c512_decode": lambda: Decoder(**QWEN_05B).decode(1, 512),
    "decoder_05b_b8_s512_train": lambda: Decoder(**QWEN_05B).train(8, 512),
    "moe_b2_s1024_prefill": lambda: Decoder(**MOE_SMALL).prefill(2, 1024),
    "moe_b16_c1024_decode": lambda: Decoder(**MOE_SMALL).decode(16, 1024),
    "gpt2m_b4_s1024_fused_train": lambda: Decoder(**GPT2_M, fused=True).train(4, 1024),
    "bert_large_b8_s256_infer": lambda: Encoder(**BERT_L).infer(8, 256),
    "bert_large_b1_s384_infer": lambda: Encoder(**BERT_L).infer(1, 384),
    "bert_large_b8_s384_train": lambda: Encoder(**BERT_L).train(8, 384),
    "vit_b16_b1_infer": lambda: Encoder(**VIT_B).infer(1, 224),
    "vit_b16_b64_infer": lambda: Encoder(**VIT_B).infer(64, 224),
    "vit_b16_b32_train": lambda: Encoder(**VIT_B).train(32, 224),
    "vit_l16_b128_fused_infer": lambda: Encoder(**VIT_L, fused=True).infer(128, 224),
    "dit_b8_infer": lambda: DiffusionTransformer(28, 1152, 16).infer(8, 64),
    "dit_b1_infer": lambda: DiffusionTransformer(28, 1152, 16).infer(1, 32),
    "unet_b2_infer": lambda: UNet([320, 640, 1280], {1, 2}).infer(2, 64),
    "unet_b8_infer": lambda: UNet([128, 256, 512], {2}).infer(8, 64),
    "resnet101_b16_infer": lambda: ConvNet("bottleneck", 64, RESNET101).infer(16, 224),
    "resnet50_b128_infer": lambda: ConvNet("bottleneck", 64, RESNET).infer(128, 224),
    "resnet50_b32_train": lambda: ConvNet("bottleneck", 64, RESNET).train(32, 224),
    "mobilenet_b1_infer": lambda: ConvNet("inverted", 32, MOBILENET).infer(1, 224),
    "mobilenet_b64_infer": lambda: ConvNet("inverted", 32, MOBILENET).infer(64, 224),
    "mobilenet_b64_train": lambda: ConvNet("inverted", 32, MOBILENET).train(64, 224),
    "convnext_b32_infer": lambda: ConvNet("next", 96, CONVNEXT).infer(32, 224),
    "convnext_b32_train": lambda: ConvNet("next", 96, CONVNEXT).train(32, 224),
    "dlrm_b2048_infer": lambda: Recommender(26, 1000000, 64, [1024, 512, 256]).infer(2048),
    "lstm_b32_s64_infer": lambda: Recurrent(2, 1024).infer(32, 64),
    "decoder_3b_8l_b2_s1024_prefill": lambda: Decoder(**LLAMA3_3B).prefill(2, 1024),
    "decoder_13b_4l_b1_s512_prefill": lambda: Decoder(**LLAMA_13B).prefill(1, 512),
    "decoder_70b_2l_b8_c2048_decode": lambda: Decoder(**LLAMA_70B).decode(8, 2048),
    "decoder_13b_4l_b32_c512_decode": lambda: Decoder(**LLAMA_13B).decode(32, 512),
    "decoder_70b_2l_b4_s1024_prefill": lambda: Decoder(**LLAMA_70B).prefill(4, 1024),
    "decoder_3b_8l_b1_c4096_decode": lambda: Decoder(**LLAMA3_3B).decode(1, 4096),
    "mixtral_4l_b4_s512_prefill": lambda: Decoder(**MIXTRAL).prefill(4, 512),
    "mixtral_4l_b32_c512_decode": lambda: Decoder(**MIXTRAL).decode(32, 512),
    "vit_h14_8l_b16_infer": lambda: Encoder(8, 1280, 16, 5120, patch=14, classes=1000).infer(16, 224),
    "bert_small_b64_s128_infer": lambda: Encoder(4, 512, 8, 2048, vocab=30522).infer(64, 128),
    "dit_12l_b32_infer": lambda: DiffusionTransformer(12, 768, 12).infer(32, 32),
    "unet_b4_s32_infer": lambda: UNet([192, 384, 768], {1, 2}).infer(4, 32),
    "resnet50_b8_infer": lambda: ConvNet("bottleneck", 64, RESNET).infer(8, 224),
    "mobilenet_b256_infer": lambda: ConvNet("inverted", 32, MOBILENET).infer(256, 224),
    "vit_s16_b128_train": lambda: Encoder(12, 384, 6, 1536, patch=16, classes=1000).train(128, 224),
    "decoder_3b_8l_b4_s512_train": lambda: Decoder(**LLAMA3_3B).train(4, 512),
}

# ------------------------------------------------------------------ running


@functools.cache
def random_pool(kind):
    """Random numbers of this type, a prime number of them so that repeating them gives other rows."""
    rng = numpy.random.default_rng(0)
    count = 16777213
    if jnp.issubdtype(kind, jnp.integer) or kind == jnp.bool_:
        return rng.integers(0, 2 if kind == jnp.bool_ else 500 if jnp.iinfo(kind).max > 500 else 100, count).astype(kind)
    return (0.05 * rng.standard_normal(count, numpy.float32)).astype(kind)


def fill(shapes):
    """Random inputs of these shapes; integers stay below every table's size."""
    return jax.tree.map(lambda s: jax.device_put(numpy.resize(random_pool(numpy.dtype(s.dtype)), s.shape)), shapes)


class Program:
    """A compiled case that feeds what it donates back into itself."""

    def __init__(self, make):
        function, shapes, donated = make()
        self.donated = donated
        start = time.perf_counter()
        lowered = jax.jit(function, donate_argnums=donated).lower(*shapes)
        self.stablehlo = lowered.as_text()
        compiled = lowered.compile()
        self.compile_seconds = time.perf_counter() - start
        self.optimised, self.memory, self.run = compiled.as_text(), compiled.memory_analysis(), compiled
        self.arguments = list(fill(shapes))
        # What is donated comes back: a step's state first, a decoder's cache last.
        self.state_at = 0 if donated == (0,) else -1

    def call(self):
        result = self.run(*self.arguments)
        for at in self.donated:
            self.arguments[at] = result[self.state_at]
        return result


class Module:
    """A StableHLO module from a file, run as it stands; results that alias an argument are fed back."""

    TYPES = {"f32": jnp.float32, "bf16": BF16, "f16": jnp.float16, "i32": jnp.int32, "i1": jnp.bool_, "ui32": jnp.uint32,
             "i8": jnp.int8}

    def __init__(self, path):
        with open(path) as source:
            self.stablehlo = source.read()
        device = jax.devices()[0]
        options = xla_client.CompileOptions()
        start = time.perf_counter()
        self.executable = device.client.compile_and_load(self.stablehlo, xla_client.DeviceList((device,)), options)
        self.compile_seconds = time.perf_counter() - start
        self.optimised = self.executable.hlo_modules()[0].to_string()
        self.memory = self.executable.get_compiled_memory_stats()
        signature = self.stablehlo[self.stablehlo.index("@main("):]
        signature = signature[:signature.index(") -> ")]
        shapes, self.fed = [], {}
        for i, one in enumerate(re.split(r"%arg\d+: ", signature)[1:]):
            *sizes, kind = re.match(r"tensor<([^>]*)>", one).group(1).split("x")
            shapes.append(jax.ShapeDtypeStruct([int(n) for n in sizes], self.TYPES[kind]))
            alias = re.search(r"tf.aliasing_output = (\d+)", one)
            if alias:
                self.fed[i] = int(alias.group(1))
        self.arguments = fill(shapes)

    def call(self):
        results = [r[0] for r in self.executable.execute_sharded(self.arguments).disassemble_into_single_device_arrays()]
        for argument, result in self.fed.items():
            self.arguments[argument] = results[result]
        return results


def kernels_of(program, calls):
    """(start us, duration us, name, instruction) of the kernels of one call, in order; durations are
    medians over the later half of the calls, which are queued back to back."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(calls):
                result = program.call()
            jax.block_until_ready(result)
        (path,) = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
        data = jax.profiler.ProfileData.from_file(path)
    found = []
    for plane in data.planes:
        if "GPU" not in plane.name:
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue
            for e in line.events:
                stats = {k: v for k, v in e.stats if k in ("hlo_op", "memcpy_details")}
                found.append((e.start_ns / 1e3, e.duration_ns / 1e3, e.name, str(stats.get("hlo_op", "")), line.name))
    found.sort()
    each = len(found) // calls
    if not each or len(found) % calls:
        print(f"{len(found)} kernels of {calls} calls do not divide", file=sys.stderr)
        return found[-each:] if each else found
    runs = [found[i * each:(i + 1) * each] for i in range(calls // 2, calls)]
    if any([k[2] for k in run] != [k[2] for k in runs[-1]] for run in runs):
        print("the calls' kernels differ in order", file=sys.stderr)
        return runs[-1]
    return [(k[0], statistics.median(run[i][1] for run in runs), *k[2:]) for i, k in enumerate(runs[-1])]


def busy(kernels):
    """The time in which some kernel runs: neighbours in a graph overlap a little."""
    end = total = 0.0
    for start, duration, *_ in kernels:
        total += max(0.0, start + duration - max(start, end))
        end = max(end, start + duration)
    return total


def measure(case, program, nvml, brief=False):
    for _ in range(3):
        jax.block_until_ready(program.call())
    singles = []
    start = time.perf_counter()
    while len(singles) < 10 or (time.perf_counter() - start < (0.1 if brief else 0.4) and len(singles) < 300):
        begin = time.perf_counter()
        jax.block_until_ready(program.call())
        singles.append(time.perf_counter() - begin)
    # Two loops: the second is the steady one. The energy counter moves in steps of 0.1 s.
    count = max(10, int((0.3 if brief else 0.8) / statistics.median(singles)))
    for _ in range(2):
        ran, joules, begin = count, nvml.joules(), time.perf_counter()
        for _ in range(ran):
            result = program.call()
        clock = nvml.clock()
        jax.block_until_ready(result)
        seconds, joules = time.perf_counter() - begin, nvml.joules() - joules
        count = max(10, int((0.8 if brief else 1.4) * ran / seconds))
    kernels = kernels_of(program, max(6, min(60, int((0.15 if brief else 0.3) * ran / seconds))))
    memory = program.memory
    entry = program.optimised[program.optimised.index("ENTRY"):]
    singles.sort()
    row = {
        "case": case, "sync_us": statistics.median(singles) * 1e6, "sync_p10_us": singles[len(singles) // 10] * 1e6,
        "sync_p90_us": singles[len(singles) * 9 // 10] * 1e6, "pipe_us": seconds / ran * 1e6, "iters": ran,
        "energy_mj": joules / ran * 1e3, "arg_bytes": memory.argument_size_in_bytes,
        "out_bytes": memory.output_size_in_bytes, "temp_bytes": memory.temp_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "peak_bytes": memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes,
        "hlo_fusions": entry.count(" fusion("), "hlo_customcalls": entry.count(" custom-call("),
        "kernel_sum_us": sum(k[1] for k in kernels), "busy_us": busy(kernels), "kernels": len(kernels), "sm_mhz": clock,
        "compile_s": round(program.compile_seconds, 1),
    }
    listing = io.StringIO()
    lines = csv.writer(listing, lineterminator="\n")
    lines.writerow(["start_us", "dur_us", "name", "instruction", "stream"])
    for k in kernels:
        lines.writerow([f"{k[0] - kernels[0][0]:.3f}", f"{k[1]:.3f}", k[2], k[3], k[4]])
    return row, {".mlir": program.stablehlo, ".hlo": program.optimised, ".kernels.csv": listing.getvalue()}


def largest_assignment(folder):
    """The largest buffer assignment dumped since the last call: small ones are of the inputs' programs."""
    found = glob.glob(os.path.join(folder, "**", "*buffer-assignment.txt"), recursive=True)
    text = open(max(found, key=os.path.getsize)).read() if found else ""
    shutil.rmtree(folder)
    os.mkdir(folder)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write to")
    parser.add_argument("--minutes", type=float, default=10, help="begin no case after so long (10)")
    parser.add_argument("--cases", default="", help="parts of names, by commas; all unless given")
    parser.add_argument("--sample", type=int, default=0, help="draw so many programs in place of the cases")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    parser.add_argument("--brief", action="store_true", help="time shortly, as drawn programs are")
    parser.add_argument("--buffers", action="store_true", help="keep XLA's buffer assignments")
    parser.add_argument("--modules", help="folder of StableHLO modules (.mlir) to run in place of the cases")
    parser.add_argument("--name", default="models", help="of the table and the archive (models)")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    if options.modules:
        todo = {os.path.basename(p)[:-len(".mlir")]: functools.partial(Module, p)
                for p in sorted(glob.glob(os.path.join(options.modules, "*.mlir")), key=os.path.getsize)}
    else:
        cases = CASES
        if options.sample:
            import jax_samples
            cases = jax_samples.draw(options.sample, options.seed)
        todo = {case: functools.partial(Program, make) for case, make in cases.items()}
    dump = tempfile.mkdtemp() if options.buffers else None
    if dump:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={dump} --xla_dump_hlo_module_re=.*"
    wanted = [p for p in options.cases.split(",") if p]
    nvml = Nvml(0)
    deadline = time.monotonic() + 60 * options.minutes
    with open(os.path.join(options.out, options.name + ".csv"), "w", newline="") as sink, \
            tarfile.open(os.path.join(options.out, options.name + ".tar.gz"), "w:gz") as archive:
        writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for case, make in todo.items():
            if wanted and not any(p in case for p in wanted):
                continue
            if time.monotonic() > deadline:
                print(f"no time left for {case}", file=sys.stderr)
                continue
            try:
                row, files = measure(case, make(), nvml, brief=options.brief or options.sample > 0)
                if dump:
                    files[".buffers.txt"] = largest_assignment(dump)
            except Exception as error:  # one case that does not run must not end the others
                print(f"{case} failed: {type(error).__name__}: {str(error)[:400]}", file=sys.stderr, flush=True)
                continue
            writer.writerow({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()})
            sink.flush()
            for suffix, text in files.items():
                data = text.encode()
                info = tarfile.TarInfo(case + suffix)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            print(f"{case}: {row['pipe_us']:.0f} us, {row['kernels']} kernels in {row['kernel_sum_us']:.0f} us,"
                  f" compiled in {row['compile_s']} s", file=sys.stderr, flush=True)
            jax.clear_caches()


if __name__ == "__main__":
    main()
