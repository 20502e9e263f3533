"""One job on one device: how long it takes, how far it is from the truth, and the same of the loop it replaces."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from scanweaver.demo.jobs import Job
from scanweaver.gpu_exec.artifact import Artifact

ALLOWED = {torch.float32: 1e-6, torch.float64: 1e-12}
"""Relative error in norm against a float64 loop; in float32 a loop that is itself worse than half of it allows more."""


@dataclass(frozen=True)
class PeerResult:
    """Somebody else's code on the CPU, and how far our result is from its."""

    name: str
    milliseconds: float
    error: float


@dataclass(frozen=True)
class Result:
    """Times are medians, but the loop's is its fastest run: no claim should rest on a hiccup of what it is compared
    with. Errors are relative, in norm, against the float64 loop."""

    job: Job
    device: str
    artifact: Artifact
    ready_milliseconds: float
    milliseconds: float
    loop_milliseconds: float
    error: float
    loop_error: float
    allowed: float
    output: Tensor
    peer: PeerResult | None

    @property
    def speedup(self) -> float:
        return self.loop_milliseconds / self.milliseconds

    @property
    def holds(self) -> bool:
        return self.error < self.allowed  # False for NaN


def measure(job: Job, device: torch.device, progress: Callable[[str], None]) -> Result:
    """Runs `job` on `device`; tells `progress` what comes next, in four parts (see PARTS)."""
    progress("compiling")
    start = perf_counter()
    output = job.run()
    _wait(device)
    ready = (perf_counter() - start) * 1e3

    progress("timing")
    milliseconds = median(_milliseconds(job.run, device, seconds=0.5))

    progress("timing the loop")
    loop_output, loop_milliseconds = _fastest_loop(job, output.dtype, device)

    progress("looping in float64")
    with _one_thread():
        truth = loop_output if output.dtype == torch.float64 else job.loop(torch.float64)
    loop_error = relative_error(loop_output, truth)
    allowed = max(ALLOWED[output.dtype], 2 * loop_error)
    artifact = job.recurrence.artifact(*job.args, **job.kwargs)
    return Result(
        job,
        device_name(device),
        artifact,
        ready,
        milliseconds,
        loop_milliseconds,
        relative_error(output, truth),
        loop_error,
        allowed,
        output.cpu(),
        _peer(job, output),
    )


PARTS = 4


def _fastest_loop(job: Job, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, float]:
    """The loop's values, and its time on PyTorch's threads or on one, whichever is less: on a busy machine two threads
    that wait for each other at every step can take twenty times as long as one."""
    outputs: list[Tensor] = []
    times = _milliseconds(lambda: outputs.append(job.loop(dtype)), device, seconds=0.5, least=1, most=3)
    with _one_thread():
        times += _milliseconds(lambda: job.loop(dtype), device, seconds=0.5, least=1, most=3)
    return outputs[0], min(times)


@contextmanager
def _one_thread() -> Generator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _peer(job: Job, output: Tensor) -> PeerResult | None:
    if job.peer is None:
        return None
    values = torch.as_tensor(job.peer.compute())
    milliseconds = median(_milliseconds(job.peer.compute, torch.device("cpu"), seconds=0.2))
    return PeerResult(job.peer.name, milliseconds, relative_error(output.cpu(), values))


def relative_error(values: Tensor, truth: Tensor) -> float:
    off = values.double() - truth
    return float(((off * off).sum() / (truth * truth).sum()).sqrt())


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def _milliseconds(
    run: Callable[[], Any], device: torch.device, seconds: float, least: int = 3, most: int = 200
) -> list[float]:
    """The times of as many runs as `seconds` hold, within limits."""
    end = perf_counter() + seconds
    times: list[float] = []
    while len(times) < least or (len(times) < most and perf_counter() < end):
        start = perf_counter()
        run()
        _wait(device)
        times.append((perf_counter() - start) * 1e3)
    return times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
