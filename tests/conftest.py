"""What every test shares: tests that need what is not there are skipped, with the reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from seed import SEED

if os.environ.get("CI"):  # a run that decides draws the same examples as the one before
    settings.register_profile("ci", derandomize=True)
    settings.load_profile("ci")


def _why_no_gpu() -> str | None:
    import torch

    if torch.cuda.is_available():
        return None
    return "needs a CUDA GPU: " + ("none found" if torch.version.cuda else "this torch is a CPU build")


def _why_no_host_tools() -> str | None:
    from scanweaver.errors import ToolchainError
    from scanweaver.gpu_exec.cache import CPU_TOOLS
    from scanweaver.gpu_exec.toolchain import find

    for name in CPU_TOOLS:
        try:
            find(name)
        except ToolchainError as error:
            return f"needs what compiles for the CPU: {str(error).splitlines()[0]}"
    return None


def _why_no_commands() -> str | None:
    folder = Path(sys.executable).parent
    missing = [name for name in ("scanweaver", "scanweaver-opt", "xdsl-opt") if not (folder / name).is_file()]
    return f"needs the installed commands: no {', '.join(missing)} in {folder}" if missing else None


_WHY_NOT = {"gpu": _why_no_gpu, "host_tools": _why_no_host_tools, "commands": _why_no_commands}


def pytest_report_header() -> str:
    return f"seed of the random tests: {SEED} (SCANWEAVER_TEST_SEED={SEED} repeats it)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, why_not in _WHY_NOT.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = why_not() if marked else None
        if reason is not None:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))
