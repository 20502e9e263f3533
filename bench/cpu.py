"""Checks and times the CPU back end against a loop over time in PyTorch: selective scan and affine scan, float32.

    python bench/cpu.py [--out bench/results/cpu.json] [--threads 2]

Both are the quickest of several repeats, warm, the loop on all threads or on one, so that other programs on the machine
flatter nobody; every result is held against the step in float64 first. "ns" is a state's step, over all threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import provenance
import torch
import torch.nn.functional as F
from spine import affine, affine_reference, error, selective_reference, selective_scan

SELECTIVE = [(1, 64, 1024), (1, 256, 512), (1, 1536, 1024)]
AFFINE = [(256, 512), (4096, 4096), (64, 65536)]
STATES = 16


def quickest(call: Callable[[], Any], seconds: float) -> float:
    """The time of the quickest call within some seconds, at least three of them."""
    call()
    best, count, end = float("inf"), 0, time.perf_counter() + seconds
    while count < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best, count = min(best, time.perf_counter() - start), count + 1
    return best


def quickest_loop(call: Callable[[], Any], seconds: float) -> float:
    """A loop's time, on all threads or on one: small steps are quicker without waiting for each other."""
    threads = torch.get_num_threads()
    times = [quickest(call, seconds)]
    torch.set_num_threads(1)
    times.append(quickest(call, seconds))
    torch.set_num_threads(threads)
    return min(times)


def selective_loop(
    u: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor,
    z: torch.Tensor,
) -> torch.Tensor:
    dt = F.softplus(dt)
    h = torch.zeros(*u.shape[:2], A.shape[1])
    steps = []
    for t in range(u.shape[2]):
        h = torch.exp(dt[:, :, t, None] * A) * h + (dt[:, :, t] * u[:, :, t])[:, :, None] * B[:, None, :, t]
        steps.append((h * C[:, None, :, t]).sum(-1))
    return (torch.stack(steps, 2) + D[:, None] * u) * F.silu(z)


def affine_loop(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(a.shape[0])
    steps = []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        steps.append(h)
    return torch.stack(steps, 1)


def over_time(*shape: int, channels: bool) -> torch.Tensor:
    value = torch.randn(shape)
    return value.transpose(-1, -2).contiguous().transpose(-1, -2) if channels else value


def bench_selective(b: int, d: int, t: int, channels: bool) -> dict[str, Any]:
    def timed(*shape: int) -> torch.Tensor:
        return over_time(*shape, channels=channels)

    u, dt, z, B, C = timed(b, d, t), timed(b, d, t) - 2, timed(b, d, t), timed(b, STATES, t), timed(b, STATES, t)
    args = (u, dt, -torch.rand(d, STATES) - 0.1, B, C, torch.randn(d), z)
    err = error(selective_scan(*args), selective_reference(*args))
    ours, loop = quickest(lambda: selective_scan(*args), 1.5), quickest_loop(lambda: selective_loop(*args), 1.5)
    return {"suite": "selective", "b": b, "d": d, "t": t, "channels": channels, "ms": ours * 1e3, "loop ms": loop * 1e3,
            "times": loop / ours, "ns": ours * 1e9 / (b * d * t * STATES), "error": err,
            "compile ms": sum(selective_scan.artifact(*args).milliseconds.values())}  # fmt: skip


def bench_affine(rows: int, steps: int, channels: bool) -> dict[str, Any]:
    a, b = over_time(rows, steps, channels=channels).sigmoid(), over_time(rows, steps, channels=channels)
    err = error(affine(a, b), affine_reference(a, b))
    ours, loop = quickest(lambda: affine(a, b), 1.0), quickest_loop(lambda: affine_loop(a, b), 1.0)
    add = quickest(lambda: torch.add(a, b), 0.5)  # the same traffic, and memory for the result as well
    gb = 3 * rows * steps * 4 / 1e9
    return {"suite": "affine", "rows": rows, "steps": steps, "channels": channels, "ms": ours * 1e3,
            "loop ms": loop * 1e3, "times": loop / ours, "GB/s": gb / ours, "torch.add GB/s": gb / add,
            "error": err}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Any]] = []

    def show(row: dict[str, Any]) -> None:
        assert row["error"] <= 1e-6, row
        rows.append(row)
        print(
            {k: round(v, 9 if k == "error" else 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True
        )

    for channels in (False, True):
        for shape in SELECTIVE:
            show(bench_selective(*shape, channels))
        for rows_steps in AFFINE:
            show(bench_affine(*rows_steps, channels))
    if arguments.out is not None:
        provenance.write(arguments.out, {"threads": arguments.threads, "rows": rows})


if __name__ == "__main__":
    main()
