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
    return _number(target) >= 80


def gpu(target: str) -> Gpu:
    """The limits of a chip that `is_gpu`; of one not listed, those of the closest older one."""
    number = _number(target)
    return GPUS[max((name for name in GPUS if _number(name) <= number), key=_number)]


def _number(target: str) -> int:
    """90 of `sm_90` and of `sm_90a`; 0 of what is no chip."""
    found = re.fullmatch(r"sm_(\d+)[af]?", target)
    return int(found[1]) if found else 0
