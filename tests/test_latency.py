"""What a call costs the host: compiled cold, from the disk cache, and warm.

The limits are those of an idle machine. So that they hold on a loaded one, the quickest of several repeats counts, in
CPU time, which for a compilation includes that of the tools it starts.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import scanweaver as sw
from scanweaver.config import config

SIGNATURE = "h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]"


def step(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> Any:
    dt = sw.softplus(dt)
    h = sw.exp(dt * A) * h + dt * B * u
    return h, (sw.sum(C * h, "n") + D * u) * sw.silu(z)


def scaled(scale: float) -> Callable[..., Any]:
    """The step with another constant in it."""

    def other(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> Any:
        return step(h, u, scale * dt, A, B, C, D, z)

    return other


def inputs(d: int, t: int, device: str = "cpu") -> list[torch.Tensor]:
    shapes = [(1, d, t), (1, d, t), (d, 16), (1, 16, t), (1, 16, t), (d,), (1, d, t)]
    return [torch.randn(shape, device=device) for shape in shapes]


def cpu_seconds() -> float:
    """CPU time of this process and of the tools that it started and that have ended."""
    return sum(os.times()[:4])


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    call()
    return clock() - begin


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", tmp_path)


def test_cold_then_from_disk(empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    small = inputs(16, 8)
    sw.affine_scan(small[0], small[1])  # imports and tool versions are not the compilation's
    # Three recurrences that differ: none finds what another has compiled.
    cold = [
        seconds(lambda scale=scale: sw.recurrence(SIGNATURE)(scaled(scale))(*small), cpu_seconds) for scale in (1, 2, 3)
    ]

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"a tool was started: {args[0]}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    from_disk = [seconds(lambda: sw.recurrence(SIGNATURE)(scaled(1))(*small), time.process_time) for _ in range(10)]
    print(f"cold {min(cold):.2f} s, from disk {min(from_disk) * 1e3:.0f} ms")
    assert min(cold) <= 2.0
    assert min(from_disk) <= 0.05


def test_a_new_length_compiles_nothing(empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = sw.recurrence(SIGNATURE)(step)
    scan(*inputs(40, 70))
    scan(*inputs(40, 72))
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a tool was started"))
    for t in (65, 71, 99, 127):  # of one class of sizes, and as unaligned
        scan(*inputs(40, t))


def test_a_new_number_compiles_nothing(empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    discounted = sw.recurrence("g[b]; r[b t], gamma[] -> y[b t]")(lambda g, r, gamma=0.99: ((g := gamma * g + r), g))
    rewards = torch.randn(2, 9)
    discounted(rewards, 0.5)
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a tool was started"))
    got = discounted(rewards, 0.25)
    expected = torch.zeros(2)
    for t in range(9):
        expected = 0.25 * expected + rewards[:, t]
        torch.testing.assert_close(got[:, t], expected)


def warm_microseconds(call: Callable[[], Any], batches: int = 50, size: int = 40) -> float:
    """One call's share of the quickest batch."""

    def batch() -> None:
        for _ in range(size):
            call()

    batch()
    return min(seconds(batch, time.process_time) for _ in range(batches)) / size * 1e6


def test_warm_call_on_the_cpu() -> None:
    scan = sw.recurrence(SIGNATURE)(step)
    tensors = inputs(1, 1)
    took = warm_microseconds(lambda: scan(*tensors))
    print(f"warm call, 7 tensors, work included: {took:.1f} us")
    assert took <= 25


@pytest.mark.gpu
def test_warm_call_on_the_gpu() -> None:
    scan = sw.recurrence(SIGNATURE)(step)
    tensors = inputs(16, 64, "cuda")

    def call() -> None:
        scan(*tensors)

    took = warm_microseconds(call)
    torch.cuda.synchronize()
    print(f"warm call, 7 tensors: {took:.1f} us")
    assert took <= 25
