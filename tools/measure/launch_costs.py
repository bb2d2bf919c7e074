#!/usr/bin/env python3
"""Measures what launches cost beside their kernels, for data/stacks/*.yaml.

Run on a machine with a CUDA GPU, JAX and PyTorch; prints one JSON object. For each
stack it times programs of n dependent small kernels (which no stack can fuse: products
of 64x64 matrices) and fits time = call + n * per_kernel by least squares:

  pipelined   programs queued back to back, one wait at the end: per_kernel is the
              larger of the device's and the host's time of a launch
  single      a wait after every program: call is the price of one call and its wait
"""
import json
import statistics
import sys
import time

REPEATS = 30
SIZES = (1, 8, 32, 128)


def fit(points):
    """Least squares of seconds over kernels: (intercept, slope)."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def timed(run, wait, queued):
    """Median seconds of one run over REPEATS, `queued` runs before each wait."""
    for _ in range(5):
        run()
    wait()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(queued):
            run()
        wait()
        times.append((time.perf_counter() - start) / queued)
    return statistics.median(times)


def measure(programs, wait_for):
    """programs: n -> callable that queues n kernels."""
    result = {}
    for name, queued in (("pipelined", 50), ("single", 1)):
        points = [(n, timed(run, wait_for, queued)) for n, run in programs.items()]
        call, per_kernel = fit(points)
        result[name] = {
            "call_us": call * 1e6,
            "per_kernel_us": per_kernel * 1e6,
            "points_us": {str(n): t * 1e6 for n, t in points},
        }
    return result


def measure_jax():
    import jax
    import jax.numpy as jnp

    x = jnp.ones((64, 64), jnp.bfloat16)
    last = [None]

    def program(n):
        @jax.jit
        def chain(a, b):
            for _ in range(n):
                a = jax.lax.dot(a, b)
            return a

        def run():
            last[0] = chain(x, x)

        return run

    result = measure({n: program(n) for n in SIZES}, lambda: last[0].block_until_ready())
    result["version"] = jax.__version__
    return result


def measure_torch():
    import torch

    x = torch.ones(64, 64, dtype=torch.bfloat16, device="cuda")

    def program(n):
        def run():
            a = x
            for _ in range(n):
                a = a @ x

        return run

    def captured(n):
        graph = torch.cuda.CUDAGraph()
        run = program(n)
        run()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    eager = measure({n: program(n) for n in SIZES}, torch.cuda.synchronize)
    eager["version"] = torch.__version__
    graphs = measure({n: captured(n) for n in SIZES}, torch.cuda.synchronize)
    # The kernel itself, so that gaps can be told from it.
    import torch.profiler as profiler

    run = program(128)
    run()
    torch.cuda.synchronize()
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    kernels = [e.device_time_total for e in profile.events() if e.device_time_total > 0]
    return {"eager": eager, "graph": graphs, "kernel_us": statistics.median(kernels), "gpu": torch.cuda.get_device_name()}


if __name__ == "__main__":
    report = {}
    if "--no-torch" not in sys.argv:
        report["torch"] = measure_torch()
    if "--no-jax" not in sys.argv:
        report["jax"] = measure_jax()
    json.dump(report, sys.stdout, indent=1)
    print()
