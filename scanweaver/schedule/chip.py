"""Limits of the machines that schedules are chosen for."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA chip. Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability"."""

    multiprocessors: int
    shared_bytes: int
    """Dynamic shared memory that one block may ask for."""


GPUS = {
    "sm_80": Gpu(108, 163 * 1024),
    "sm_90": Gpu(132, 227 * 1024),
    "sm_100": Gpu(148, 227 * 1024),
}

WARP = 32
LANE_BYTES = 16
"""The widest access of one lane."""
BUSY_WARPS = 16
"""Warps of a multiprocessor below which latency is no longer hidden."""


def is_gpu(target: str) -> bool:
    """Whether this names a chip that kernels are written for."""
    number = re.fullmatch(r"sm_(\d+)[af]?", target)
    return number is not None and int(number[1]) >= 80


def gpu(target: str) -> Gpu:
    """The limits of a chip; of one not listed, those of the closest older one."""
    number = int("".join(c for c in target.removeprefix("sm_") if c.isdigit()) or 0)
    known = sorted(int(name.removeprefix("sm_")) for name in GPUS)
    return GPUS[f"sm_{max([n for n in known if n <= number], default=known[0])}"]
