"""`scanweaver.config`: the few settings that are not arguments of a call."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs


def _path_from_env(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value).expanduser() if value else None


def _default_cache_dir() -> Path:
    return _path_from_env("SCANWEAVER_CACHE_DIR") or platformdirs.user_cache_path("scanweaver", appauthor=False)


@dataclass
class Config:
    """Settings, read from the environment once and free to be assigned to at any time.

    `mlir_opt`: the mlir-opt to use; None looks for it (SCANWEAVER_MLIR_OPT).
    `target`: the chip to compile for, such as "sm_90", where the tensors are on a CUDA device; None asks the device.
    Tensors on the CPU run there whatever it says; "cpu" is refused for tensors on a CUDA device. `explain`, `ir` and
    `compile` without a target of their own take it, "cpu" too (SCANWEAVER_TARGET).
    `batch_invariant`: choose schedules without looking at the number of rows.
    `cache_dir`: where compiled kernels are kept (SCANWEAVER_CACHE_DIR).
    """

    mlir_opt: Path | None = field(default_factory=lambda: _path_from_env("SCANWEAVER_MLIR_OPT"))
    target: str | None = field(default_factory=lambda: os.environ.get("SCANWEAVER_TARGET") or None)
    batch_invariant: bool = False
    cache_dir: Path = field(default_factory=_default_cache_dir)


config = Config()
