#!/usr/bin/env python3
"""Times the kernels of a training step that inference has none of, on the GPU at hand.

    python3 tools/measure/training_kernels.py OUT.csv [SECONDS [CASE]]

Attention forward and backward by the libraries' own kernels, products with a
32-bit result (weight gradients), in 8 bits, and grouped over experts; norms,
gated activations, losses and the optimiser as a compiler fuses them. Each runs
three times for at least 60 ms, ten at a time as a CUDA graph, in shuffled order;
the median is kept, with the clock and power read in the run. Columns:
case,params,us,sm_mhz,power_w,bytes,flops.
"""
import csv
import json
import random
import sys
import time

import pynvml
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernels import bus_of

BF16, FP32, FP8 = torch.bfloat16, torch.float32, getattr(torch, "float8_e4m3fn", None)  # new in 2.1
GPU = "cuda"


def rand(*shape, dtype=BF16):
    return torch.randn(*shape, device=GPU, dtype=FP32).to(dtype)


def attention(backend, b, h, kv, s, d, dv, backward, causal=True):
    def make():
        q = rand(b, s, h, d).transpose(1, 2).requires_grad_(backward)
        k = rand(b, s, kv, d).transpose(1, 2).requires_grad_(backward)
        v = rand(b, s, kv, dv).transpose(1, 2).requires_grad_(backward)

        def forward():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal,
                                                      enable_gqa=h != kv)
        if not backward:
            return forward
        out = forward()
        grad = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)
    flops = 2.0 * b * h * s * s * (d + dv) * (0.5 if causal else 1) * (2.5 if backward else 1)
    return make, 0, flops


def product(m, n, k, result, accumulate=False, layout="nt"):
    def make():
        a = rand(k, m).t() if layout[0] == "t" else rand(m, k)
        b = rand(n, k).t() if layout[1] == "t" else rand(k, n)
        if result == BF16:
            return lambda: torch.mm(a, b)
        c = torch.zeros(m, n, device=GPU, dtype=FP32)
        if accumulate:
            return lambda: torch.ops.aten.addmm.dtype_out(c, a, b, FP32, out=c)
        return lambda: torch.mm(a, b, out_dtype=FP32)
    return make, 0, 2.0 * m * n * k


def byte_product(m, n, k):
    def make():
        a, b = rand(m, k, dtype=FP8), rand(n, k, dtype=FP8).t()
        one = torch.ones((), device=GPU)
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=BF16, use_fast_accum=True)
    return make, 0, 2.0 * m * n * k


def grouped(experts, tokens, n, k, weight_gradient=False):
    def make():
        offsets = torch.arange(1, experts + 1, device=GPU, dtype=torch.int32) * (tokens // experts)
        if weight_gradient:
            a, b = rand(tokens, n).t(), rand(tokens, k)
            return lambda: torch._grouped_mm(a, b, offs=offsets)
        a, b = rand(tokens, k), rand(experts, n, k).transpose(1, 2)
        return lambda: torch._grouped_mm(a, b, offs=offsets)
    return make, 0, 2.0 * tokens * n * k


def experts(count, tokens, n, k, narrow, together):
    """Rows of experts one after the other: a product each, or one grouped kernel in 8 bits."""
    def make():
        rows = tokens // count
        a = rand(tokens, k, dtype=FP8 if narrow else BF16)
        b = rand(count, n, k, dtype=FP8 if narrow else BF16).transpose(1, 2)
        one = torch.ones((), device=GPU)
        if together:
            ends = torch.arange(1, count + 1, device=GPU, dtype=torch.int32) * rows
            scales = torch.ones(tokens, device=GPU), torch.ones(count, n, device=GPU)
            return lambda: torch._scaled_grouped_mm(a, b, *scales, offs=ends, out_dtype=BF16)

        def run():
            for i in range(count):
                part = a[i * rows:(i + 1) * rows]
                if narrow:
                    torch._scaled_mm(part, b[i], one, one, out_dtype=BF16, use_fast_accum=True)
                else:
                    torch.mm(part, b[i])
        return run
    return make, 0, 2.0 * tokens * n * k


def compiled(function, inputs, backward, passes):
    """`passes` counts how often tensors of the first input's size are read or written."""
    def make():
        torch._dynamo.reset()
        tensors = [t.requires_grad_(backward and t.is_floating_point()) for t in inputs()]
        run = torch.compile(function, dynamic=False)
        if not backward:
            return lambda: run(*tensors)
        out = run(*tensors)
        grad = torch.randn_like(out)
        wanted = [t for t in tensors if t.requires_grad]
        return lambda: torch.autograd.grad(out, wanted, grad, retain_graph=True)
    shape = inputs()[0]
    return make, passes * shape.numel() * shape.element_size(), 0


def rms(x, w):
    return F.rms_norm(x, (x.shape[-1],), w)


def layer(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b)


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def bias_gelu(x, b):
    return F.gelu(x + b, approximate="tanh")


def bias_dropout_add(x, b, residual):
    return residual + F.dropout(x + b, 0.1)


def rotary(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def masked_softmax(x):
    n = x.shape[-1]
    mask = torch.ones(n, n, device=x.device, dtype=torch.bool).triu(1)
    return torch.softmax((x.float() * 0.088).masked_fill(mask, -1e4), -1).to(x.dtype)


def dropout(x):
    return F.dropout(x, 0.1)


def loss(x, labels):
    return F.cross_entropy(x.float(), labels)


def cast(x, scale):
    return (x.float() * scale).clamp(-448, 448).to(FP8), x.abs().amax().float()


def cast_both(x, scale):
    y = (x.float() * scale).clamp(-448, 448).to(FP8)
    return y, y.t().contiguous(), x.abs().amax().float()


def choice(logits, active, sigmoid, bias):
    """Each token's experts, with weights that sum to one, as maps of tokens by experts."""
    scores = torch.sigmoid(logits) if sigmoid else logits
    _, best = torch.topk(scores + bias if sigmoid else scores, active, dim=1)
    weights = torch.gather(scores, 1, best)
    weights = weights / (weights.sum(1, keepdim=True) + 1e-20) if sigmoid else torch.softmax(weights, 1)
    chosen = torch.zeros_like(logits).int().scatter(1, best, 1).bool()
    return torch.zeros_like(logits).scatter(1, best, weights), chosen


def balance(logits, active, sigmoid):
    """The auxiliary loss: scores of all experts by how often each is chosen."""
    scores = torch.sigmoid(logits) if sigmoid else torch.softmax(logits, 1)
    scores = scores / (scores.sum(1, keepdim=True) + 1e-20) if sigmoid else scores
    _, best = torch.topk(scores, active, dim=1)
    chosen = torch.zeros_like(logits).int().scatter(1, best, 1).bool()
    return (scores.sum(0) * chosen.sum(0)).sum()


def router(tokens, experts, active, sigmoid, backward):
    """Operator by operator in 32 bits, as where no fused kernel is taken."""
    def make():
        logits = rand(tokens, experts, dtype=FP32).requires_grad_(backward)
        bias = rand(experts, dtype=FP32)

        def forward():
            weights, chosen = choice(logits, active, sigmoid, bias)
            return weights, balance(logits, active, sigmoid), chosen.sum(0)
        if not backward:
            return forward
        grad, one = rand(tokens, experts, dtype=FP32), torch.ones((), device=GPU)

        def both():
            weights, loss, _ = forward()
            return torch.autograd.grad((weights, loss), logits, (grad, one))
        return both
    return make, 4 * tokens * experts, 0


def adam(elements, master):
    def make():
        p = torch.zeros(elements, device=GPU, dtype=FP32, requires_grad=True)
        p.grad = torch.ones_like(p)
        o = torch.optim.AdamW([p], lr=1e-4, fused=True)
        return o.step
    return make, 28 * elements, 0


def cases():
    for backend, name in ((SDPBackend.CUDNN_ATTENTION, "cudnn"),
                          (SDPBackend.FLASH_ATTENTION, "flash")):
        for b, h, kv, s, d, dv in ((1, 8, 1, 8192, 128, 128), (1, 16, 2, 8192, 128, 128),
                                   (1, 32, 8, 8192, 128, 128), (1, 32, 8, 4096, 128, 128),
                                   (1, 8, 8, 2048, 128, 128), (2, 12, 12, 2048, 128, 128),
                                   (4, 16, 16, 2048, 64, 64), (1, 64, 4, 4096, 128, 128),
                                   (4, 64, 8, 4096, 64, 64), (1, 32, 8, 16384, 128, 128),
                                   (1, 16, 16, 4096, 192, 128)):
            if name == "flash" and d != dv:
                continue
            for backward in (False, True):
                yield (f"attention_{name}{'_backward' if backward else ''}",
                       dict(b=b, h=h, kv=kv, s=s, d=d, dv=dv),
                       attention(backend, b, h, kv, s, d, dv, backward))
    for m, n, k in ((8192, 2304, 16384), (8192, 16384, 2048), (8192, 13312, 16384),
                    (8192, 16384, 6656), (8192, 6144, 4096), (8192, 28672, 4096),
                    (8192, 4096, 14336), (8192, 10240, 8192), (2048, 4608, 12288),
                    (2048, 12288, 6144), (4096, 3072, 7168), (8192, 16032, 16384)):
        p = dict(m=m, n=n, k=k)
        yield "product_forward", p, product(m, n, k, BF16)
        yield "product_data_gradient", p, product(m, k, n, BF16, layout="nn")
        yield "product_weight_gradient", p, product(n, k, m, BF16, layout="tn")
        yield "product_weight_gradient_fp32", p, product(n, k, m, FP32, layout="tn")
        yield "product_weight_gradient_accumulated", p, product(n, k, m, FP32, True, "tn")
        yield "product_fp8", p, byte_product(m, n, k)
        yield "product_fp8_data_gradient", p, byte_product(m, k, n)
        yield "product_fp8_weight_gradient", p, byte_product(n, k, m)
    for e, t, n, k in ((8, 32768, 4096, 2048), (8, 32768, 4096, 7168), (16, 16384, 3072, 4096),
                       (32, 32768, 5760, 2880), (4, 32768, 4096, 7168), (128, 32768, 1536, 2048)):
        p = dict(experts=e, tokens=t, n=n, k=k)
        yield "grouped", p, grouped(e, t, n, k)
        yield "grouped_data_gradient", p, grouped(e, t, k, n)
        yield "grouped_weight_gradient", p, grouped(e, t, n, k, True)
    for e, t, n, k in ((8, 32768, 4096, 7168), (8, 32768, 7168, 2048), (16, 49152, 1856, 2688),
                       (16, 49152, 2688, 1856), (16, 32768, 5760, 2880), (4, 16384, 3072, 4096),
                       (4, 16384, 4096, 1536), (16, 65536, 1536, 2048), (16, 65536, 2048, 768),
                       (128, 32768, 1536, 2048), (32, 16384, 3072, 4096)):
        p = dict(experts=e, tokens=t, n=n, k=k)
        yield "experts_fp8_grouped", p, experts(e, t, n, k, True, True)
        yield "experts_fp8_one_by_one", p, experts(e, t, n, k, True, False)
        yield "experts_bf16_one_by_one", p, experts(e, t, n, k, False, False)
    for rows, width in ((1024, 12288), (8192, 4096), (8192, 8192), (2048, 12288), (1024, 16384),
                        (16384, 7168)):
        p = dict(rows=rows, width=width)

        def x(rows=rows, width=width):
            return rand(rows, width)

        def v(width=width):
            return rand(width)
        for back in (False, True):
            mark = "_backward" if back else ""
            yield f"rmsnorm{mark}", p, compiled(rms, lambda x=x, v=v: [x(), v()], back, 3 if back else 2)
            yield f"layernorm{mark}", p, compiled(layer, lambda x=x, v=v: [x(), v(), v()], back,
                                                  3 if back else 2)
            yield f"swiglu{mark}", p, compiled(
                swiglu, lambda r=rows, w=width: [rand(r, 2 * w)], back, 2.5 if back else 1.5)
            yield f"bias_gelu{mark}", p, compiled(bias_gelu, lambda x=x, v=v: [x(), v()], back,
                                                  3 if back else 2)
            yield f"bias_dropout_add{mark}", p, compiled(
                bias_dropout_add, lambda x=x, v=v: [x(), v(), x()], back, 3)
        yield "add", p, compiled(torch.add, lambda x=x: [x(), x()], False, 3)
        yield "cast_fp8", p, compiled(cast, lambda x=x: [x(), torch.ones((), device=GPU)], False, 1.5)
        yield "cast_fp8_both", p, compiled(cast_both, lambda x=x: [x(), torch.ones((), device=GPU)],
                                           False, 2)
    for rows, width in ((8192, 16032), (8192, 32064), (4096, 128256), (2048, 6400)):
        for back in (False, True):
            yield (f"loss{'_backward' if back else ''}", dict(rows=rows, width=width),
                   compiled(loss, lambda r=rows, w=width:
                            [rand(r, w), torch.randint(0, w, (r,), device=GPU)], back,
                            2 if back else 1))
    for b, h, s in ((1, 12, 2048), (4, 8, 2048), (1, 20, 2048)):
        for back in (False, True):
            mark = "_backward" if back else ""
            p = dict(b=b, h=h, s=s)
            yield f"masked_softmax{mark}", p, compiled(
                masked_softmax, lambda b=b, h=h, s=s: [rand(b * h, s, s)], back, 3 if back else 2)
            yield f"dropout{mark}", p, compiled(
                dropout, lambda b=b, h=h, s=s: [rand(b * h, s, s)], back, 2.5)
        yield "scores", p, product_batched(b * h, s, s, 128)
        yield "values", p, product_batched(b * h, s, 128, s)
    yield "rotary", dict(rows=8192, heads=8), compiled(
        rotary, lambda: [rand(8192, 8, 128), rand(8192, 1, 64), rand(8192, 1, 64)], False, 2)
    yield "rotary", dict(rows=8192, heads=40), compiled(
        rotary, lambda: [rand(8192, 40, 128), rand(8192, 1, 64), rand(8192, 1, 64)], False, 2)
    for t, e, active, sigmoid in ((8192, 512, 22, True), (4096, 512, 22, True), (16384, 128, 6, True),
                                  (8192, 128, 6, True), (4096, 256, 8, True), (4096, 128, 8, False),
                                  (16384, 128, 8, False), (16384, 128, 4, False), (4096, 64, 6, False)):
        for back in (False, True):
            yield (f"router{'_and_backward' if back else ''}", dict(tokens=t, experts=e, active=active, sigmoid=sigmoid),
                   router(t, e, active, sigmoid, back))
    for elements in (2**24, 2**27, 2**30):
        yield "adam", dict(elements=elements), adam(elements, True)


def product_batched(b, m, n, k):
    return (lambda: (lambda x=rand(b, m, k), y=rand(b, n, k): torch.bmm(x, y.transpose(1, 2))),
            0, 2.0 * b * m * n * k)


def captured(run, repeats):
    """`repeats` runs as one graph, so that the host does not show in small kernels."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            run()
    return graph.replay, repeats


def timed(run, repeats, handle, at_least=0.06):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    once = max(start.elapsed_time(end), 2e-3) / 1e3
    count = min(max(3, int(at_least / once)), 20000)
    start.record()
    for _ in range(count):
        run()
    end.record()
    time.sleep(0.4 * count * once)
    clock = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
    power = pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / count / repeats, clock, power


def main():
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus_of(0).encode())
    began = time.time()
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 1e9
    with open(sys.argv[1], "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["case", "params", "us", "sm_mhz", "power_w", "bytes", "flops"])
        todo = [case for case in cases() if len(sys.argv) < 4 or case[0].startswith(sys.argv[3])]
        random.Random(7).shuffle(todo)
        for name, params, (make, bytes_, flops) in todo:
            if time.time() - began > limit:
                print("out of time, left out", name, params)
                continue
            try:
                run = make()
                for _ in range(3):
                    run()
                torch.cuda.synchronize()
                # The optimiser's step asks the host; a capture that fails leaves the generator of
                # random numbers unusable.
                replay, repeats = (run, 1) if name == "adam" else captured(run, 10)
                replay()
                seen = [timed(replay, repeats, handle) for _ in range(3)]
            except Exception as error:  # a library that cannot run a case is no reason to stop
                print("left out", name, params, str(error).split("\n")[0][:150])
                continue
            middle = sorted(seen)[1]
            rows.writerow([name, json.dumps(params), f"{middle[0]:.3f}", middle[1],
                           f"{middle[2]:.0f}", int(bytes_), int(flops)])
            out.flush()
            del run, replay
            torch.cuda.empty_cache()
            time.sleep(0.05)
    print(f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
