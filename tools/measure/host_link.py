#!/usr/bin/env python3
"""Measures copies between pinned host memory and a CUDA GPU, for `host_link` in data/serving/*.yaml.

  python3 host_link.py > h200_host_link.csv      size, then GB/s to the device, to the host, and both at once
"""
import time

import torch

SIZES_MIB = (0.0625, 0.25, 1, 2, 8, 32, 128, 512)


def seconds(run, count):
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def main():
    print("mib,to_device_gbps,to_host_gbps,both_gbps")
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    for mib in SIZES_MIB:
        size = int(mib * 2**20)
        hosts = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        devices = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]

        def both():
            with torch.cuda.stream(streams[0]):
                devices[0].copy_(hosts[0], non_blocking=True)
            with torch.cuda.stream(streams[1]):
                hosts[1].copy_(devices[1], non_blocking=True)

        count = max(10, min(400, int(2e9 / size)))
        up = seconds(lambda: devices[0].copy_(hosts[0], non_blocking=True), count)
        down = seconds(lambda: hosts[0].copy_(devices[0], non_blocking=True), count)
        print(f"{mib},{size / up * 1e-9:.1f},{size / down * 1e-9:.1f},{2 * size / seconds(both, count) * 1e-9:.1f}")


if __name__ == "__main__":
    main()
