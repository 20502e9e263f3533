"""Checks and times the kernels that everything else stands on, on one GPU: affine scan and selective scan.

    python bench/spine.py [--out bench/results/spine.json]

Every shape is checked against a float64 recurrence before it is timed. Times are medians of CUDA events around
single launches, with inputs rotated so that the L2 cache is cold; "python" is the host time of one warm call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import provenance
import torch
import torch.nn.functional as F

import scanweaver as sw

COPIES_BYTES = 400 << 20
"""Inputs are rotated over at least this much memory: several times the L2 cache."""


@sw.recurrence("h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]")
def selective_scan(
    h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, *, softplus: bool = True
) -> Any:
    if softplus:
        dt = sw.softplus(dt)
    h = sw.exp(dt * A) * h + dt * B * u
    y = sw.sum(C * h, "n")
    if D is not None:
        y = y + D * u
    return h, y if z is None else y * sw.silu(z)


@sw.recurrence("h[r]; a[r t], b[r t]")
def affine(h: Any, a: Any, b: Any) -> Any:
    return a * h + b


def affine_reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """h = a·h + b in float64, in log2(T) doubling rounds."""
    a, b = a.double(), b.double()
    distance = 1
    while distance < a.shape[1]:
        b = torch.cat([b[:, :distance], a[:, distance:] * b[:, :-distance] + b[:, distance:]], 1)
        a = torch.cat([a[:, :distance], a[:, distance:] * a[:, :-distance]], 1)
        distance *= 2
    return b


def selective_reference(u, dt, A, B, C, D, z):  # type: ignore[no-untyped-def]
    """The step in float64, time in order."""
    u, dt, A, B, C, D, z = (value.double() for value in (u, dt, A, B, C, D, z))
    dt = F.softplus(dt)
    h = torch.zeros(*u.shape[:2], A.shape[1], dtype=torch.float64, device=u.device)
    steps = []
    for t in range(u.shape[2]):
        h = torch.exp(dt[:, :, t, None] * A) * h + (dt * u)[:, :, t, None] * B[:, None, :, t]
        steps.append((h * C[:, None, :, t]).sum(-1))
    return (torch.stack(steps, 2) + D[:, None] * u) * F.silu(z)


def error(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.double() - expected).norm() / expected.norm())


def events_ms(calls: list[Any], repeats: int = 30) -> float:
    """Median GPU milliseconds of one call, over calls on different inputs."""
    for call in calls[:3]:
        call()
    times = []
    for i in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(200_000)  # the host gets ahead, so that launch overhead stays out
        begin.record()
        calls[i % len(calls)]()
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in times)


def python_us(call: Any, repeats: int = 300) -> float:
    """Median host microseconds of a warm call."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    times = []
    for i in range(repeats):
        if i % 50 == 0:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    torch.cuda.synchronize()
    return statistics.median(times) * 1e6


def rotated(make: Any, bytes_each: int) -> list[Any]:
    return [make() for _ in range(max(2, min(6, 1 + COPIES_BYTES // bytes_each)))]


def bench_copy() -> float:
    sources = [torch.randn(256 << 20, device="cuda") for _ in range(2)]
    target = torch.empty_like(sources[0])
    ms = events_ms([lambda s=s: target.copy_(s) for s in sources])
    return 2 * target.numel() * 4 / ms / 1e6


def bench_affine(rows: int, steps: int, dtype: torch.dtype, channels: bool, strategy: str) -> dict[str, Any]:
    def make() -> tuple[torch.Tensor, torch.Tensor]:
        shape = (steps, rows) if channels else (rows, steps)
        a, b = torch.rand(shape, device="cuda", dtype=dtype), torch.randn(shape, device="cuda", dtype=dtype)
        return (a.T, b.T) if channels else (a, b)

    inputs = rotated(make, 2 * rows * steps * dtype.itemsize)
    got = affine(*inputs[0], strategy=strategy)
    sample = slice(0, rows, max(1, rows // 512))
    err = error(got[sample], affine_reference(inputs[0][0][sample], inputs[0][1][sample]))
    ms = events_ms([lambda x=x: affine(*x, strategy=strategy) for x in inputs])
    gbps = 3 * rows * steps * dtype.itemsize / ms / 1e6
    artifact = affine.artifact(*inputs[0], strategy=strategy)
    return {
        "suite": "affine",
        "rows": rows,
        "steps": steps,
        "dtype": str(dtype)[6:],
        "layout": "channels" if channels else "steps",
        "strategy": strategy,
        "schedule": schedule_of(artifact),
        "error": err,
        "ms": ms,
        "GB/s": gbps,
        "registers": artifact.resources["affine"]["registers"],
    }


def bench_selective(b: int, d: int, t: int, channels: bool, strategy: str, n: int = 16) -> dict[str, Any]:
    def make() -> tuple[torch.Tensor, ...]:
        def over_time(*shape: int) -> torch.Tensor:
            value = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
            return value.transpose(1, 2).contiguous().transpose(1, 2) if channels else value

        A = -torch.rand(d, n, device="cuda") - 0.1
        return (
            over_time(b, d, t),
            over_time(b, d, t) - 2,
            A,
            over_time(b, n, t),
            over_time(b, n, t),
            torch.randn(d, device="cuda"),
            over_time(b, d, t),
        )

    inputs = rotated(make, 3 * b * d * t * 2)
    got = selective_scan(*inputs[0], strategy=strategy)
    few = min(d, 64)
    u, dt, A, B, C, D, z = inputs[0]
    expected = selective_reference(u[:1, :few], dt[:1, :few], A[:few], B[:1], C[:1], D[:few], z[:1, :few])
    err = error(got[:1, :few], expected)
    ms = events_ms([lambda x=x: selective_scan(*x, strategy=strategy) for x in inputs])
    artifact = selective_scan.artifact(*inputs[0], strategy=strategy)
    small = b * d * t < 2**22
    return {
        "suite": "selective",
        "b": b,
        "d": d,
        "t": t,
        "n": n,
        "layout": "channels" if channels else "steps",
        "strategy": strategy,
        "schedule": schedule_of(artifact),
        "error": err,
        "ms": ms,
        "python_us": python_us(lambda: selective_scan(*inputs[0], strategy=strategy)) if small else None,
        "registers": artifact.resources["selective_scan"]["registers"],
    }


def schedule_of(artifact: Any) -> str:
    text = artifact.stages["scheduled"]
    begin = text.index("#scan.schedule<")
    return text[begin : text.index(">", begin) + 1].removeprefix("#scan.schedule<").rstrip(">")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(seed := int(time.time()))
    rows: list[dict[str, Any]] = []

    def show(row: dict[str, Any]) -> None:
        rows.append(row)
        print({k: round(v, 9) if isinstance(v, float) else v for k, v in row.items()}, flush=True)

    copy = bench_copy()
    print(f"seed {seed}; copy {copy:.0f} GB/s", flush=True)
    for shape in [(16384, 4096), (16384, 1024), (65536, 2048), (4096, 2048), (1536, 2048), (256, 65536)]:
        for channels in (False, True):
            for strategy in ("lanes", "serial") if channels else ("lanes",):
                show(bench_affine(*shape, torch.float32, channels, strategy))
    show(bench_affine(16384, 4096, torch.bfloat16, False, "auto"))
    for shape in [(8, 2048, 4096), (8, 2048, 2048), (2, 2048, 2048), (4, 1024, 1024), (1, 5120, 4096), (1, 2048, 8192)]:
        for channels in (False, True):
            for strategy in ("lanes", "serial"):
                show(bench_selective(*shape, channels, strategy))
    if arguments.out is not None:
        provenance.write(arguments.out, {"copy GB/s": copy, "seed": seed, "rows": rows})


if __name__ == "__main__":
    main()
