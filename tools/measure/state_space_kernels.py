#!/usr/bin/env python3
"""Times the kernels of a Mamba-2 layer in training, forward and backward, on the GPU at hand.

    python3 tools/measure/state_space_kernels.py OUT.csv

The scan runs in chunks (Dao and Gu 2024, arXiv:2405.21060): sums of decays in a
chunk, the state that a chunk adds, states passed from chunk to chunk, C·B within
a chunk, and the outputs; its gradient computes the first four again and has nine
more kernels. Beside it stand the causal convolution over channels, the norm of the
gated result by groups, and their gradients. The kernels are written here in Triton
from the equations, in bf16 with 32-bit sums and states, and tuned over tiles. Each is
first checked against a recurrence that goes token by token, in 64 bits. It is timed
as tools/measure/training_kernels.py does: three times for at least 60 ms, ten at a
time as a CUDA graph; the median stands. Columns: case,params,us,sm_mhz,power_w,bytes,flops:
bytes that must be read and written once, and operations of its products.
"""
import csv
import gc
import itertools
import json
import multiprocessing
import sys
import time

import torch
import triton
import triton.language as tl

from kernels import bus_of
from training_kernels import captured, timed

GPU = "cuda"
BF16, FP32 = torch.bfloat16, torch.float32


def tiles(*names, stages=(2, 3), warps=(4, 8), **choices):
    values = [choices[name] for name in names]
    return [triton.Config(dict(zip(names, v)), num_stages=s, num_warps=w)
            for v in itertools.product(*values) for s in stages for w in warps]


TUNED = []


def tuned(configs, *key, zero=None):
    def wrap(function):
        TUNED.append(triton.autotune(configs, list(key), warmup=2, rep=8, reset_to_zero=zero)(triton.jit(function)))
        return TUNED[-1]
    return wrap


# Tokens of all sequences stand one after the other; T of them, chunks of L. Rows of x, B and C are
# `row` apart, as parts of what the convolution wrote. Sums `cs` and steps `dt` stand head by head.

@tuned(tiles("BH", stages=(1,), BH=[1, 2, 4, 8], warps=(4,)), "L")
def decay_sums(raw, bias, a, dt, cs, T, raw_row, L: tl.constexpr, BH: tl.constexpr):
    t = tl.program_id(0) * L + tl.arange(0, L)
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    v = tl.load(raw + t[None, :] * raw_row + h[:, None]).to(tl.float32) + tl.load(bias + h)[:, None]
    step = tl.where(v > 20, v, tl.log(1 + tl.exp(v)))
    tl.store(dt + h[:, None] * T + t[None, :], step)
    tl.store(cs + h[:, None] * T + t[None, :], tl.cumsum(step * tl.load(a + h)[:, None], 1))


@tuned(tiles("BN", "BK", BN=[64, 128], BK=[32, 64]), "P", "N", "L")
def chunk_states(x, b, dt, cs, out, T, row, per_group, H, P: tl.constexpr, N: tl.constexpr,
                 L: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    c, h = tl.program_id(1), tl.program_id(2)
    p, n = tl.arange(0, P), tl.program_id(0) * BN + tl.arange(0, BN)
    last = tl.load(cs + h * T + c * L + L - 1)
    acc = tl.zeros((P, BN), tl.float32)
    for k in range(0, L, BK):
        t = c * L + k + tl.arange(0, BK)
        scale = tl.exp(last - tl.load(cs + h * T + t)) * tl.load(dt + h * T + t)
        xs = tl.load(x + t[None, :] * row + h * P + p[:, None])
        bs = tl.load(b + t[:, None] * row + (h // per_group) * N + n[None, :]).to(tl.float32)
        acc += tl.dot(xs, (bs * scale[:, None]).to(tl.bfloat16))
    tl.store(out + ((c * H + h) * P + p[:, None]) * N + n[None, :], acc)


@tuned(tiles("BS", BS=[64, 128, 256, 512, 1024], stages=(1,), warps=(4,)), "S", "OUT")
def pass_states(states, cs, out, T, chunks, H, S: tl.constexpr, L: tl.constexpr, OUT: tl.constexpr,
                BS: tl.constexpr):
    h, first = tl.program_id(1), tl.program_id(2) * chunks
    i = tl.program_id(0) * BS + tl.arange(0, BS)
    acc = tl.zeros((BS,), tl.float32)
    for c in range(0, chunks):
        at = ((first + c) * H + h) * S + i
        tl.store(out + at, acc.to(OUT))
        decay = tl.exp(tl.load(cs + h * T + (first + c) * L + L - 1))
        acc = acc * decay + tl.load(states + at)


@tuned(tiles("BM", "BN", BM=[64, 128], BN=[64, 128], stages=(2, 3)), "N", "L")
def chunk_products(cc, b, out, row, G, N: tl.constexpr, L: tl.constexpr, BM: tl.constexpr,
                   BN: tl.constexpr):
    c, g = tl.program_id(1), tl.program_id(2)
    m = (tl.program_id(0) // (L // BN)) * BM + tl.arange(0, BM)
    k = (tl.program_id(0) % (L // BN)) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for j in range(0, N, 64):
        n = j + tl.arange(0, 64)
        cs_ = tl.load(cc + (c * L + m[:, None]) * row + g * N + n[None, :])
        bs_ = tl.load(b + (c * L + k[None, :]) * row + g * N + n[:, None])
        acc += tl.dot(cs_, bs_)
    tl.store(out + ((c * G + g) * L + m[:, None]) * L + k[None, :], acc)


@tuned(tiles("BM", "BK", BM=[64, 128], BK=[32, 64], stages=(2, 3)), "P", "N", "L")
def chunk_outputs(x, cc, cb, dt, cs, states, d, y, T, row, per_group, H, G, P: tl.constexpr,
                  N: tl.constexpr, L: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    c, h, i = tl.program_id(1), tl.program_id(2), tl.program_id(0)
    g = h // per_group
    m, p, n = i * BM + tl.arange(0, BM), tl.arange(0, P), tl.arange(0, N)
    t = c * L + m
    here = tl.load(cs + h * T + t)
    cs_ = tl.load(cc + t[:, None] * row + g * N + n[None, :])
    before = tl.load(states + ((c * H + h) * P + p[None, :]) * N + n[:, None])
    acc = tl.dot(cs_, before) * tl.exp(here)[:, None]
    for k in range(0, (i + 1) * BM, BK):
        s = k + tl.arange(0, BK)
        there = tl.load(cs + h * T + c * L + s)
        w = tl.load(cb + ((c * G + g) * L + m[:, None]) * L + s[None, :])
        w *= tl.exp(tl.minimum(here[:, None] - there[None, :], 0.0)) * tl.load(dt + h * T + c * L + s)[None, :]
        w = tl.where(m[:, None] >= s[None, :], w, 0.0).to(tl.bfloat16)
        acc += tl.dot(w, tl.load(x + (c * L + s[:, None]) * row + h * P + p[None, :]))
    own = tl.load(x + t[:, None] * row + h * P + p[None, :]).to(tl.float32)
    acc += own * tl.load(d + h)
    tl.store(y + (t[:, None] * H + h) * P + p[None, :], acc.to(tl.bfloat16))


@tuned(tiles("BN", "BK", BN=[64, 128], BK=[32, 64]), "P", "N", "L")
def states_gradient(cc, dy, cs, out, T, row, per_group, H, P: tl.constexpr, N: tl.constexpr,
                    L: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    c, h = tl.program_id(1), tl.program_id(2)
    p, n = tl.arange(0, P), tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((P, BN), tl.float32)
    for k in range(0, L, BK):
        t = c * L + k + tl.arange(0, BK)
        scale = tl.exp(tl.load(cs + h * T + t))
        dys = tl.load(dy + (t[None, :] * H + h) * P + p[:, None]).to(tl.float32) * scale[None, :]
        acc += tl.dot(dys.to(tl.bfloat16), tl.load(cc + t[:, None] * row + (h // per_group) * N + n[None, :]))
    tl.store(out + ((c * H + h) * P + p[:, None]) * N + n[None, :], acc)


@tuned(tiles("BS", BS=[64, 128, 256, 512, 1024], stages=(1,), warps=(4,)), "S", zero=["dlast"])
def pass_gradients(dout, states, cs, out, narrow, dlast, T, chunks, H, S: tl.constexpr,
                   L: tl.constexpr, BS: tl.constexpr):
    """From the last chunk to the first; the states are written again in 16 bits for products."""
    h, first = tl.program_id(1), tl.program_id(2) * chunks
    i = tl.program_id(0) * BS + tl.arange(0, BS)
    acc = tl.zeros((BS,), tl.float32)
    for back in range(0, chunks):
        c = first + chunks - 1 - back
        at = (c * H + h) * S + i
        tl.store(out + at, acc.to(tl.bfloat16))
        decay = tl.exp(tl.load(cs + h * T + c * L + L - 1))
        before = tl.load(states + at)
        tl.store(narrow + at, before.to(tl.bfloat16))
        tl.atomic_add(dlast + c * H + h, tl.sum(before * acc) * decay)
        acc = acc * decay + tl.load(dout + at)


@tuned(tiles("BM", "BK", BM=[64, 128], BK=[32, 64], stages=(2, 3)), "P", "N", "L", zero=["dd"])
def inputs_gradient(x, b, cb, dy, dt, cs, dstates, d, dx, ddt, dd, T, row, per_group, H, G,
                    P: tl.constexpr, N: tl.constexpr, L: tl.constexpr, BM: tl.constexpr,
                    BK: tl.constexpr):
    c, h, i = tl.program_id(1), tl.program_id(2), tl.program_id(0)
    g = h // per_group
    m, p, n = i * BM + tl.arange(0, BM), tl.arange(0, P), tl.arange(0, N)
    t = c * L + m
    here = tl.load(cs + h * T + t)
    last = tl.load(cs + h * T + c * L + L - 1)
    bs = tl.load(b + t[:, None] * row + g * N + n[None, :])
    ds = tl.load(dstates + ((c * H + h) * P + p[None, :]) * N + n[:, None])
    acc = tl.dot(bs, ds) * tl.exp(last - here)[:, None]
    for k in range((i * BM) // BK * BK, L, BK):
        s = k + tl.arange(0, BK)
        there = tl.load(cs + h * T + c * L + s)
        w = tl.load(cb + ((c * G + g) * L + s[None, :]) * L + m[:, None])
        w *= tl.exp(tl.minimum(there[None, :] - here[:, None], 0.0))
        w = tl.where(s[None, :] >= m[:, None], w, 0.0).to(tl.bfloat16)
        acc += tl.dot(w, tl.load(dy + ((c * L + s[:, None]) * H + h) * P + p[None, :]))
    own = tl.load(x + t[:, None] * row + h * P + p[None, :]).to(tl.float32)
    grad = tl.load(dy + (t[:, None] * H + h) * P + p[None, :]).to(tl.float32)
    tl.store(ddt + h * T + t, tl.sum(acc * own, 1))
    tl.atomic_add(dd + h, tl.sum(grad * own))
    acc = acc * tl.load(dt + h * T + t)[:, None] + grad * tl.load(d + h)
    tl.store(dx + t[:, None] * row + h * P + p[None, :], acc.to(tl.bfloat16))


@tuned(tiles("BM", "BN", BM=[64, 128], BN=[64, 128], stages=(1, 3)), "P", "N", "L", zero=["dcs"])
def shared_gradient(v, u, dt, cs, states, out, dcs, T, row, v_row, per_split, H, G, KEYS: tl.constexpr,
                    P: tl.constexpr, N: tl.constexpr, L: tl.constexpr, BM: tl.constexpr,
                    BN: tl.constexpr):
    """Of B (KEYS): v is x, states their gradients; of C: v is dy. Heads of a group add up, each
    group's in several parts. u is B or C itself."""
    c = tl.program_id(1)
    first = tl.program_id(2) * per_split
    splits = H // per_split
    g = first // (H // G)
    m = (tl.program_id(0) // (N // BN)) * BM + tl.arange(0, BM)
    n = (tl.program_id(0) % (N // BN)) * BN + tl.arange(0, BN)
    t, p = c * L + m, tl.arange(0, P)
    us = tl.load(u + t[:, None] * row + g * N + n[None, :]).to(tl.float32)
    acc = tl.zeros((BM, BN), tl.float32)
    for h in range(first, first + per_split):
        here = tl.load(cs + h * T + t)
        if KEYS:
            last = tl.load(cs + h * T + c * L + L - 1)
            scale = tl.exp(last - here) * tl.load(dt + h * T + t)
        else:
            scale = tl.exp(here)
        vs = tl.load(v + t[:, None] * v_row + h * P + p[None, :])
        st = tl.load(states + ((c * H + h) * P + p[:, None]) * N + n[None, :])
        part = tl.dot(vs, st) * scale[:, None]
        tl.atomic_add(dcs + h * T + t, tl.sum(part * us, 1))
        acc += part
    tl.store(out + (t[:, None] * splits + tl.program_id(2)) * N + n[None, :], acc)


@tuned(tiles("BM", "BN", BM=[64, 128], BN=[64, 128], stages=(1, 3)), "P", "L")
def products_gradient(x, dy, dt, cs, out, T, row, per_split, H, P: tl.constexpr, L: tl.constexpr,
                      BM: tl.constexpr, BN: tl.constexpr):
    c = tl.program_id(1)
    first = tl.program_id(2) * per_split
    splits = H // per_split
    mi, ki = tl.program_id(0) // (L // BN), tl.program_id(0) % (L // BN)
    m, k, p = mi * BM + tl.arange(0, BM), ki * BN + tl.arange(0, BN), tl.arange(0, P)
    acc = tl.zeros((BM, BN), tl.float32)
    if ki * BN < (mi + 1) * BM:
        for h in range(first, first + per_split):
            here = tl.load(cs + h * T + c * L + m)
            there = tl.load(cs + h * T + c * L + k)
            dys = tl.load(dy + ((c * L + m[:, None]) * H + h) * P + p[None, :])
            xs = tl.load(x + (c * L + k[None, :]) * row + h * P + p[:, None])
            w = tl.exp(tl.minimum(here[:, None] - there[None, :], 0.0)) * tl.load(dt + h * T + c * L + k)[None, :]
            acc += tl.dot(dys, xs) * w
        acc = tl.where(m[:, None] >= k[None, :], acc, 0.0)
    tl.store(out + ((c * splits + tl.program_id(2)) * L + m[:, None]) * L + k[None, :], acc)


@tuned(tiles("BM", "BN", BM=[64, 128], BN=[64, 128], stages=(2, 3)), "N", "L", "KEYS")
def shared_by_products(dcb, u, rest, out, row, G, KEYS: tl.constexpr, N: tl.constexpr,
                       L: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """dB = dCBᵀ·C (KEYS) or dC = dCB·B, and what came through the states."""
    c, g = tl.program_id(1), tl.program_id(2)
    m = (tl.program_id(0) // (N // BN)) * BM + tl.arange(0, BM)
    n = (tl.program_id(0) % (N // BN)) * BN + tl.arange(0, BN)
    t = c * L + m
    acc = tl.zeros((BM, BN), tl.float32)
    for j in range(0, L, 64):
        k = j + tl.arange(0, 64)
        at = k[None, :] * L + m[:, None] if KEYS else m[:, None] * L + k[None, :]
        w = tl.load(dcb + (c * G + g) * L * L + at).to(tl.bfloat16)
        acc += tl.dot(w, tl.load(u + (c * L + k[:, None]) * row + g * N + n[None, :]))
    acc += tl.load(rest + (t[:, None] * G + g) * N + n[None, :])
    tl.store(out + t[:, None] * row + g * N + n[None, :], acc.to(tl.bfloat16))


@tuned(tiles("BM", "BK", BM=[64, 128], BK=[32, 64], stages=(1, 3)), "P", "L", zero=["dcs"])
def decays_gradient(x, dy, cb, dt, cs, dcs, T, row, per_group, H, G, P: tl.constexpr,
                    L: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    c, h, i = tl.program_id(1), tl.program_id(2), tl.program_id(0)
    g = h // per_group
    m, p = i * BM + tl.arange(0, BM), tl.arange(0, P)
    here = tl.load(cs + h * T + c * L + m)
    dys = tl.load(dy + ((c * L + m[:, None]) * H + h) * P + p[None, :])
    rows = tl.zeros((BM,), tl.float32)
    for k in range(0, (i + 1) * BM, BK):
        s = k + tl.arange(0, BK)
        there = tl.load(cs + h * T + c * L + s)
        w = tl.load(cb + ((c * G + g) * L + m[:, None]) * L + s[None, :])
        w *= tl.exp(tl.minimum(here[:, None] - there[None, :], 0.0)) * tl.load(dt + h * T + c * L + s)[None, :]
        w *= tl.dot(dys, tl.load(x + (c * L + s[None, :]) * row + h * P + p[:, None]))
        w = tl.where(m[:, None] > s[None, :], w, 0.0)
        rows += tl.sum(w, 1)
        tl.atomic_add(dcs + h * T + c * L + s, -tl.sum(w, 0))
    tl.atomic_add(dcs + h * T + c * L + m, rows)


@tuned(tiles("BH", stages=(1,), BH=[1, 2, 4, 8], warps=(4,)), "L", zero=["da", "dbias"])
def sums_gradient(raw, bias, a, dt, dcs, keys, dlast, ddt, draw, da, dbias, T, raw_row, H,
                  L: tl.constexpr, BH: tl.constexpr):
    """keys: what the states' part of B adds: minus itself to each, all of it to the chunk's last."""
    c = tl.program_id(0)
    t = c * L + tl.arange(0, L)
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    at = h[:, None] * T + t[None, :]
    through = tl.load(keys + at)
    g = tl.load(dcs + at) - through
    end = tl.sum(through, 1) + tl.load(dlast + c * H + h)
    after = tl.cumsum(g, 1, reverse=True) + end[:, None]
    grad = tl.load(ddt + at) + after * tl.load(a + h)[:, None]
    tl.atomic_add(da + h, tl.sum(after * tl.load(dt + at), 1))
    v = tl.load(raw + t[None, :] * raw_row + h[:, None]).to(tl.float32) + tl.load(bias + h)[:, None]
    grad = grad / (1 + tl.exp(-v))
    tl.atomic_add(dbias + h, tl.sum(grad, 1))
    tl.store(draw + t[None, :] * raw_row + h[:, None], grad.to(tl.bfloat16))


@tuned(tiles("BT", "BC", BT=[8, 16, 32], BC=[64, 128, 256], stages=(1,), warps=(4,)), "C")
def convolve(x, w, bias, y, x_row, C, length, W: tl.constexpr, BT: tl.constexpr, BC: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    ch = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = ch < C
    acc = tl.zeros((BT, BC), tl.float32) + tl.load(bias + ch, ok, 0.0).to(tl.float32)[None, :]
    for j in tl.static_range(W):
        past = W - 1 - j
        inside = (t % length >= past)[:, None] & ok[None, :]
        v = tl.load(x + (t[:, None] - past) * x_row + ch[None, :], inside, 0.0).to(tl.float32)
        acc += v * tl.load(w + ch * W + j, ok, 0.0).to(tl.float32)[None, :]
    acc = acc / (1 + tl.exp(-acc))
    tl.store(y + t[:, None] * C + ch[None, :], acc.to(tl.bfloat16), ok[None, :])


@triton.jit
def near(x, t, place, offset: tl.constexpr, row, ch, ok, length, T):
    inside = ((place + offset >= 0) & (place + offset < length) & (t < T))[:, None] & ok[None, :]
    return tl.load(x + (t[:, None] + offset) * row + ch[None, :], inside, 0.0).to(tl.float32)


@triton.jit
def slope(v):
    s = 1 / (1 + tl.exp(-v))
    return s * (1 + v * (1 - s))


@tuned(tiles("BT", "BC", "R", BT=[4, 8, 16], BC=[64, 128], R=[8, 32], stages=(1,), warps=(4,)), "C",
       zero=["dw", "db"])
def convolve_gradient(x, w, bias, dy, dx, dw, db, x_row, C, length, T, BT: tl.constexpr, BC: tl.constexpr,
                      R: tl.constexpr):
    """Of four taps: the three tokens before and after each one are looked at again."""
    ch = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = ch < C
    b = tl.load(bias + ch, ok, 0.0)[None, :]
    w0 = tl.load(w + ch * 4, ok, 0.0)[None, :]
    w1 = tl.load(w + ch * 4 + 1, ok, 0.0)[None, :]
    w2 = tl.load(w + ch * 4 + 2, ok, 0.0)[None, :]
    w3 = tl.load(w + ch * 4 + 3, ok, 0.0)[None, :]
    s0 = tl.zeros((BT, BC), tl.float32)
    s1 = tl.zeros((BT, BC), tl.float32)
    s2 = tl.zeros((BT, BC), tl.float32)
    s3 = tl.zeros((BT, BC), tl.float32)
    total = tl.zeros((BT, BC), tl.float32)
    for r in range(R):
        t = (tl.program_id(0) * R + r) * BT + tl.arange(0, BT)
        place = t % length
        x0 = near(x, t, place, -3, x_row, ch, ok, length, T)
        x1 = near(x, t, place, -2, x_row, ch, ok, length, T)
        x2 = near(x, t, place, -1, x_row, ch, ok, length, T)
        x3 = near(x, t, place, 0, x_row, ch, ok, length, T)
        x4 = near(x, t, place, 1, x_row, ch, ok, length, T)
        x5 = near(x, t, place, 2, x_row, ch, ok, length, T)
        x6 = near(x, t, place, 3, x_row, ch, ok, length, T)
        g = near(dy, t, place, 0, C, ch, ok, length, T) * slope(b + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3)
        acc = g * w3
        total += g
        s3 += g * x3
        g = near(dy, t, place, 1, C, ch, ok, length, T) * slope(b + w0 * x1 + w1 * x2 + w2 * x3 + w3 * x4)
        acc += g * w2
        s2 += g * x3
        g = near(dy, t, place, 2, C, ch, ok, length, T) * slope(b + w0 * x2 + w1 * x3 + w2 * x4 + w3 * x5)
        acc += g * w1
        s1 += g * x3
        g = near(dy, t, place, 3, C, ch, ok, length, T) * slope(b + w0 * x3 + w1 * x4 + w2 * x5 + w3 * x6)
        acc += g * w0
        s0 += g * x3
        tl.store(dx + t[:, None] * x_row + ch[None, :], acc.to(tl.bfloat16), (t < T)[:, None] & ok[None, :])
    tl.atomic_add(dw + ch * 4, tl.sum(s0, 0), ok)
    tl.atomic_add(dw + ch * 4 + 1, tl.sum(s1, 0), ok)
    tl.atomic_add(dw + ch * 4 + 2, tl.sum(s2, 0), ok)
    tl.atomic_add(dw + ch * 4 + 3, tl.sum(s3, 0), ok)
    tl.atomic_add(db + ch, tl.sum(total, 0), ok)


@tuned(tiles("R", R=[1, 2, 4], stages=(1,), warps=(1, 2, 4, 8)), "D")
def gated_norm(y, z, w, out, rstd, z_row, G, D: tl.constexpr, DP: tl.constexpr, R: tl.constexpr):
    t, g = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.program_id(1)
    e = tl.arange(0, DP)[None, :]
    i, ok = g * D + e, (e < D) & (t >= 0)
    zs = tl.load(z + t * z_row + i, ok, 0.0).to(tl.float32)
    v = tl.load(y + t * (G * D) + i, ok, 0.0).to(tl.float32) * zs / (1 + tl.exp(-zs))
    r = 1 / tl.sqrt(tl.sum(v * v, 1, keep_dims=True) / D + 1e-5)
    tl.store(rstd + t * G + g, r)
    tl.store(out + t * (G * D) + i, (v * r * tl.load(w + i, e < D, 0.0)).to(tl.bfloat16), ok)


@tuned(tiles("R", "Q", R=[1, 2, 4], Q=[8, 32], stages=(1,), warps=(2, 4, 8)), "D", zero=["dw"])
def gated_norm_gradient(y, z, w, rstd, dout, dy, dz, dw, z_row, G, D: tl.constexpr, DP: tl.constexpr,
                        R: tl.constexpr, Q: tl.constexpr):
    g = tl.program_id(1)
    e = tl.arange(0, DP)[None, :]
    i = g * D + e
    ws = tl.load(w + i, e < D, 0.0)
    sums = tl.zeros((1, DP), tl.float32)
    for q in range(Q):
        t = (tl.program_id(0) * Q + q) * R + tl.arange(0, R)[:, None]
        ok = (e < D) & (t >= 0)
        zs = tl.load(z + t * z_row + i, ok, 0.0).to(tl.float32)
        ys = tl.load(y + t * (G * D) + i, ok, 0.0).to(tl.float32)
        s = 1 / (1 + tl.exp(-zs))
        r = tl.load(rstd + t * G + g)
        hat = ys * zs * s * r
        o = tl.load(dout + t * (G * D) + i, ok, 0.0).to(tl.float32)
        sums += tl.sum(o * hat, 0, keep_dims=True)
        o *= ws
        v = (o - hat * (tl.sum(o * hat, 1, keep_dims=True) / D)) * r
        tl.store(dy + t * (G * D) + i, (v * zs * s).to(tl.bfloat16), ok)
        tl.store(dz + t * z_row + i, (v * ys * s * (1 + zs * (1 - s))).to(tl.bfloat16), ok)
    tl.atomic_add(dw + i, sums, e < D)


class Layer:
    """Buffers of one layer, its kernels as functions of no argument, and what each must move."""

    def __init__(self, batch, length, heads, head, groups, state, chunk, width=4):
        b, s, h, p, g, n, L = batch, length, heads, head, groups, state, chunk
        T, chunks, per = b * s, b * s // chunk, heads // groups
        inner, mixed = h * p, h * p + 2 * g * n
        new = lambda *shape, dtype=BF16: torch.empty(*shape, device=GPU, dtype=dtype)
        rand = lambda *shape, dtype=BF16: torch.randn(*shape, device=GPU, dtype=FP32).to(dtype)
        total = inner + mixed + h
        self.projected = rand(T, total)
        self.dprojected = new(T, total)
        z, xbc, raw = self.projected.split([inner, mixed, h], 1)
        dz, dxbc, draw = self.dprojected.split([inner, mixed, h], 1)
        raw.mul_(0.5).sub_(1)
        self.conv = new(T, mixed)
        self.dconv = new(T, mixed)
        x, B, C = self.conv.split([inner, g * n, g * n], 1)
        dx, dB, dC = self.dconv.split([inner, g * n, g * n], 1)
        self.weight, self.cbias = rand(mixed, width, dtype=FP32) * 0.5, rand(mixed, dtype=FP32) * 0.1
        self.a, self.d = -torch.rand(h, device=GPU) - 0.1, rand(h, dtype=FP32)
        self.bias, self.norm = rand(h, dtype=FP32) * 0.1, rand(inner, dtype=FP32)
        self.dt, self.cs, self.ddt = (new(h, T, dtype=FP32) for _ in range(3))
        self.dcs, self.keys = (torch.zeros(h, T, device=GPU) for _ in range(2))
        self.states, self.wide = (new(chunks, h, p, n, dtype=FP32) for _ in range(2))
        self.before, self.dstates = (new(chunks, h, p, n) for _ in range(2))
        self.dlast = torch.zeros(chunks, h, device=GPU)
        self.cb = new(chunks, g, L, L, dtype=FP32)
        self.y, self.dy, self.out, self.dout = new(T, inner), new(T, inner), new(T, inner), rand(T, inner)
        self.rstd = new(T, g, dtype=FP32)
        self.da, self.dbias, self.dd = (torch.zeros(h, device=GPU) for _ in range(3))
        self.dw, self.db = torch.zeros(mixed, width, device=GPU), torch.zeros(mixed, device=GPU)
        self.dnorm = torch.zeros(inner, device=GPU)
        # Groups' heads in so many parts that blocks fill the chip.
        split = per
        while split > 1 and chunks * (h // split) * (L // 64) < 8 * 132:
            split //= 2
        self.parts = new(T, h // split, n, dtype=FP32)
        self.cparts = new(T, h // split, n, dtype=FP32)
        self.dcb = new(chunks, h // split, L, L, dtype=FP32)
        row = mixed
        cdiv = triton.cdiv
        S, wide = p * n, triton.next_power_of_2(inner // g)
        st, w4, half = chunks * h * S, 4, 2
        io = T * inner * half
        bc = T * g * n * half
        sums = T * h * 4
        k = {}

        def kernel(name, run, bytes_, flops=0.0):
            k[name] = (run, bytes_, flops)

        square = chunks * L * L
        kernel("convolution", lambda: convolve[lambda m: (T // m["BT"], cdiv(mixed, m["BC"]))](
            xbc, self.weight, self.cbias, self.conv, total, mixed, s, width), 2 * T * mixed * half)
        kernel("decay_sums", lambda: decay_sums[lambda m: (chunks, h // m["BH"])](
            raw, self.bias, self.a, self.dt, self.cs, T, total, L), T * h * half + 2 * sums)
        kernel("chunk_states", lambda: chunk_states[lambda m: (n // m["BN"], chunks, h)](
            x, B, self.dt, self.cs, self.states, T, row, per, h, p, n, L),
            io + bc + 2 * sums + st * w4, 2.0 * T * h * S)
        kernel("pass_states", lambda: pass_states[lambda m: (S // m["BS"], h, b)](
            self.states, self.cs, self.before, T, s // L, h, S, L, tl.bfloat16), st * (w4 + half))
        kernel("pass_states_wide", lambda: pass_states[lambda m: (S // m["BS"], h, b)](
            self.states, self.cs, self.wide, T, s // L, h, S, L, tl.float32), st * 2 * w4)
        kernel("chunk_products", lambda: chunk_products[lambda m: (L // m["BM"] * (L // m["BN"]), chunks, g)](
            C, B, self.cb, row, g, n, L), 2 * bc + square * g * w4, 2.0 * square * g * n)
        kernel("chunk_outputs", lambda: chunk_outputs[lambda m: (L // m["BM"], chunks, h)](
            x, C, self.cb, self.dt, self.cs, self.before, self.d, self.y, T, row, per, h, g, p, n, L),
            2 * io + bc + 2 * sums + square * g * w4 + st * half, 2.0 * T * h * S + square * h * p)
        kernel("gated_norm", lambda: gated_norm[lambda m: (T // m["R"], g)](
            self.y, z, self.norm, self.out, self.rstd, total, g, inner // g, wide), 3 * io)
        kernel("gated_norm_gradient", lambda: gated_norm_gradient[lambda m: (T // m["R"] // m["Q"], g)](
            self.y, z, self.norm, self.rstd, self.dout, self.dy, dz, self.dnorm, total, g, inner // g, wide),
            5 * io)
        kernel("states_gradient", lambda: states_gradient[lambda m: (n // m["BN"], chunks, h)](
            C, self.dy, self.cs, self.states, T, row, per, h, p, n, L),
            io + bc + sums + st * w4, 2.0 * T * h * S)
        kernel("pass_gradients", lambda: pass_gradients[lambda m: (S // m["BS"], h, b)](
            self.states, self.wide, self.cs, self.dstates, self.before, self.dlast, T, s // L, h, S, L),
            st * 2 * (w4 + half))
        kernel("inputs_gradient", lambda: inputs_gradient[lambda m: (L // m["BM"], chunks, h)](
            x, B, self.cb, self.dy, self.dt, self.cs, self.dstates, self.d, dx, self.ddt, self.dd, T, row,
            per, h, g, p, n, L), 3 * io + bc + 3 * sums + square * g * w4 + st * half,
            2.0 * T * h * S + square * h * p)

        def shared(v, v_row, u, states, out, dcs, keys):
            return lambda: shared_gradient[lambda m: (L // m["BM"] * (n // m["BN"]), chunks, h // split)](
                v, u, self.dt, self.cs, states, out, dcs, T, row, v_row, split, h, g, keys, p, n, L)
        moved = io + bc + 3 * sums + st * half + T * (h // split) * n * w4
        kernel("keys_gradient", shared(x, row, B, self.dstates, self.parts, self.keys, True), moved,
               2.0 * T * h * S)
        kernel("queries_gradient", shared(self.dy, inner, C, self.before, self.cparts, self.dcs, False),
               moved, 2.0 * T * h * S)
        kernel("products_gradient", lambda: products_gradient[
            lambda m: (L // m["BM"] * (L // m["BN"]), chunks, h // split)](
            x, self.dy, self.dt, self.cs, self.dcb, T, row, split, h, p, L),
            2 * io + 2 * sums + square * (h // split) * w4, square * h * p * 1.0)

        def add_parts():
            if split == per:
                self.rest = self.parts, self.cparts, self.dcb
            else:
                self.rest = (self.parts.view(T, g, -1, n).sum(2), self.cparts.view(T, g, -1, n).sum(2),
                             self.dcb.view(chunks, g, -1, L, L).sum(2))
        add_parts()
        kernel("parts", add_parts, 0)

        def by_products(keys):
            out, u, which = (dB, C, 0) if keys else (dC, B, 1)
            return lambda: shared_by_products[lambda m: (L // m["BM"] * (n // m["BN"]), chunks, g)](
                self.rest[2], u, self.rest[which], out, row, g, keys, n, L)
        moved = 2 * bc + square * g * w4 + T * g * n * w4
        kernel("keys_by_products", by_products(True), moved, 2.0 * square * g * n)
        kernel("queries_by_products", by_products(False), moved, 2.0 * square * g * n)
        kernel("decays_gradient", lambda: decays_gradient[lambda m: (L // m["BM"], chunks, h)](
            x, self.dy, self.cb, self.dt, self.cs, self.dcs, T, row, per, h, g, p, L),
            2 * io + 3 * sums + square * g * w4, square * h * p * 1.0)
        kernel("sums_gradient", lambda: sums_gradient[lambda m: (chunks, h // m["BH"])](
            raw, self.bias, self.a, self.dt, self.dcs, self.keys, self.dlast, self.ddt, draw, self.da,
            self.dbias, T, total, h, L), 4 * sums + 2 * T * h * half)
        kernel("convolution_gradient", lambda: convolve_gradient[
            lambda m: (cdiv(T, m["BT"] * m["R"]), cdiv(mixed, m["BC"]))](
            xbc, self.weight, self.cbias, self.dconv, dxbc, self.dw, self.db, total, mixed, s, T),
            3 * T * mixed * half)
        self.kernels = k
        self.scan = ["decay_sums", "chunk_states", "pass_states", "chunk_products", "chunk_outputs"]
        self.again = ["decay_sums", "chunk_products", "chunk_states", "pass_states_wide"]
        self.scan_backward = self.again + [
            "states_gradient", "pass_gradients", "inputs_gradient", "keys_gradient", "queries_gradient",
            "products_gradient", "parts", "keys_by_products", "queries_by_products", "decays_gradient",
            "sums_gradient"]
        self.shape = b, s, h, p, g, n, T, inner

    def clear(self):
        for t in (self.dcs, self.keys, self.dlast, self.da, self.dbias, self.dd, self.dw, self.db, self.dnorm):
            t.zero_()

    def run(self, names):
        for name in names:
            self.kernels[name][0]()

    def forward(self):
        self.run(["convolution", *self.scan, "gated_norm"])

    def backward(self):
        self.clear()
        self.run(["gated_norm_gradient", "convolution", *self.scan_backward, "convolution_gradient"])


def naive(layer):
    """Token by token, in 64 bits; gradients by autograd."""
    b, s, h, p, g, n, T, inner = layer.shape
    leaf = lambda t: t.detach().double().requires_grad_()
    pr, w, cbias, a, d, bias, norm = map(leaf, (layer.projected, layer.weight, layer.cbias, layer.a,
                                                layer.d, layer.bias, layer.norm))
    z, xbc, raw = pr.view(b, s, -1).split([inner, inner + 2 * g * n, h], 2)
    padded = torch.nn.functional.pad(xbc, (0, 0, w.shape[1] - 1, 0))
    conv = sum(padded[:, j:j + s] * w[:, j] for j in range(w.shape[1])) + cbias
    x, B, C = torch.nn.functional.silu(conv).split([inner, g * n, g * n], 2)
    x = x.view(b, s, h, p)
    B, C = (t.view(b, s, g, n).repeat_interleave(h // g, 2) for t in (B, C))
    dt = torch.nn.functional.softplus(raw + bias)
    state, ys = torch.zeros(b, h, p, n, device=GPU, dtype=torch.float64), []
    for t in range(s):
        state = state * torch.exp(dt[:, t] * a)[..., None, None] + (
            (dt[:, t, :, None] * x[:, t])[..., None] * B[:, t, :, None, :])
        ys.append((state * C[:, t, :, None, :]).sum(-1) + d[:, None] * x[:, t])
    y = torch.stack(ys, 1).reshape(b, s, inner) * torch.nn.functional.silu(z)
    y = y.view(b, s, g, -1)
    out = (y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5)).reshape(T, inner) * norm
    grads = torch.autograd.grad(out, (pr, w, cbias, a, d, bias, norm), layer.dout.double())
    return [out.detach(), *grads]


def check(**shape):
    layer = Layer(**shape)
    for _ in range(2):  # the first run tries tiles, which leaves sums of several runs behind
        layer.forward()
        layer.backward()
    torch.cuda.synchronize()
    ours = (layer.out, layer.dprojected, layer.dw, layer.db, layer.da, layer.dd, layer.dbias, layer.dnorm)
    b, s, h, p, g, n, T, inner = layer.shape
    names = ["out", "dprojected", "dw", "dbias_conv", "dA", "dD", "ddt_bias", "dnorm"]
    bad = False
    for name, mine, true in zip(names, ours, naive(layer)):
        error = ((mine.double() - true).norm() / true.norm()).item()
        print(f"check {shape} {name}: {error:.2e}")
        bad |= not error < 0.03
        if name == "dprojected":
            for part, i, j in (("dz", 0, inner), ("dx", inner, 2 * inner),
                               ("dB", 2 * inner, 2 * inner + g * n),
                               ("dC", 2 * inner + g * n, 2 * inner + 2 * g * n),
                               ("ddt", 2 * inner + 2 * g * n, None)):
                e = ((mine[:, i:j].double() - true[:, i:j]).norm() / true[:, i:j].norm()).item()
                print(f"   {part}: {e:.2e}")
                bad |= not e < 0.03
    return not bad


# Those of Nemotron-3 Nano, Super and Ultra among them, whole and split over ranks.
SHAPES = [(1, 8192, 64, 64, 8, 128, 128), (2, 8192, 64, 64, 8, 128, 128), (1, 8192, 128, 64, 8, 128, 128),
          (1, 8192, 64, 64, 4, 128, 128), (1, 8192, 256, 64, 8, 128, 128), (4, 4096, 64, 64, 8, 128, 128),
          (1, 4096, 32, 64, 2, 128, 128), (1, 8192, 64, 64, 8, 128, 256)]
NAMES = ("batch", "length", "heads", "head", "groups", "state", "chunk")


def warm(job):
    """Compiles what a kernel needs for a shape, in a process of its own, into Triton's cache on disk."""
    shape, name = job
    try:
        Layer(**dict(zip(NAMES, shape))).kernels[name][0]()
        torch.cuda.synchronize()
    except Exception as error:  # compiled again when it is measured
        print("warm", job, str(error)[:300], flush=True)
    gc.collect()  # a layer and its functions hold each other
    torch.cuda.empty_cache()


def main():
    import pynvml
    began = time.time()
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 1e9
    names = [name for name in Layer(1, 512, 8, 64, 2, 128, 128).kernels if name != "parts"]
    with multiprocessing.get_context("spawn").Pool(12) as pool:
        pool.map(warm, [(shape, name) for name in names for shape in SHAPES], 1)
    print(f"compiled after {time.time() - began:.0f} s", flush=True)
    good = check(batch=2, length=256, heads=64, head=64, groups=8, state=128, chunk=128)
    good &= check(batch=1, length=512, heads=64, head=64, groups=8, state=128, chunk=256)
    if not good:
        sys.exit("results are wrong")
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus_of(0).encode())
    with open(sys.argv[1], "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["case", "params", "us", "sm_mhz", "power_w", "bytes", "flops"])
        for shape in SHAPES:
            if time.time() - began > limit:
                print("out of time, left out", shape)
                continue
            params = dict(zip(NAMES, shape))
            for kernel in TUNED:
                kernel.cache.clear()  # tiles are those of this shape
            layer = Layer(**params)
            layer.forward()
            layer.backward()
            cases = {name: ([name], *work) for name, (_, *work) in layer.kernels.items() if name != "parts"}
            for name, parts in (("scan", layer.scan), ("scan_backward", layer.scan_backward)):
                cases[name] = (parts, *(sum(layer.kernels[k][i] for k in parts) for i in (1, 2)))
            for name, (parts, bytes_, flops) in cases.items():
                replay, repeats = captured(lambda: layer.run(parts), 10)
                replay()
                middle = sorted(timed(replay, repeats, handle) for _ in range(3))[1]
                rows.writerow([name, json.dumps(params), f"{middle[0]:.3f}", middle[1], f"{middle[2]:.0f}",
                               int(bytes_), int(flops)])
            out.flush()
            print(f"{time.time() - began:.0f} s", params, flush=True)
            del layer, replay
            gc.collect()
            torch.cuda.empty_cache()
    print(f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
