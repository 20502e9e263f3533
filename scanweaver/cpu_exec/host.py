"""The instructions of this machine's CPU, which native code relies on."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from scanweaver.errors import UnsupportedError

# What LLVM emits code for, of the many flags that a kernel lists (mitigations, timers, …).
_INSTRUCTIONS = re.compile(
    r"(sse|ssse|pni|avx|fma|bmi|f16c|amx|popcnt|movbe|adx|abm|aes|pclmul|vaes|vpclmul|gfni|sha|sm[34]|cx16|rdrnd|rdseed)"
)


@cache
def description() -> dict[str, Any]:
    """The system, the machine and its instructions, as JSON values."""
    return {"system": sys.platform, "machine": platform.machine(), "instructions": sorted(_instructions())}


def has_avx512() -> bool:
    """Whether vectors of floats may use AVX-512, at every width of a register."""
    return {"avx512f", "avx512dq", "avx512vl"} <= {*description()["instructions"]}


def vector_bytes() -> int:
    """Bytes of the widest register that vectors may use."""
    return 64 if has_avx512() else 32 if "avx2" in description()["instructions"] else 16


@cache
def identity() -> str:
    """What native code depends on: machine and CPU, model and all. Two hosts may share a cache's disk."""
    told = [line for line in _cpuinfo() if line.startswith(("model name", "flags", "Features", "CPU part"))]
    machine = f"{sys.platform} {platform.machine()}"
    return hashlib.sha256("\n".join([machine, *sorted({*told})]).encode()).hexdigest()


def require(made_for: Any) -> None:
    """Raises UnsupportedError where this machine lacks what `description()` said of another, TypeError for no such."""
    here = description()
    instructions: list[Any] = made_for["instructions"]
    if not all(type(flag) is str for flag in instructions):
        raise TypeError("host is no description of one")
    for what in ("system", "machine"):
        if made_for[what] != here[what]:
            raise UnsupportedError(f"made for {made_for[what]!r}, and this is {here[what]!r}: compile it here")
    missing = sorted({*instructions} - {*description()["instructions"]})
    if missing:
        raise UnsupportedError(f"made for a CPU with {', '.join(missing)}, which this one lacks: compile it here")


def _instructions() -> set[str]:
    listed = (line.partition(":")[2].split() for line in _cpuinfo() if line.startswith(("flags", "Features")))
    flags = next(listed, list[str]())
    return {flag for flag in flags if _INSTRUCTIONS.match(flag)} if platform.machine() == "x86_64" else set(flags)


@cache
def _cpuinfo() -> tuple[str, ...]:
    try:
        return tuple(Path("/proc/cpuinfo").read_text().splitlines())
    except OSError:
        return ()
