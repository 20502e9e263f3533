"""`scanweaver doctor`: what was found on this machine, and what to install for what was not.

The host path has to work; a GPU, ptxas and cuda-bindings are shown, and asked for only where there is a GPU.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from scanweaver.config import config
from scanweaver.errors import ToolchainError

if TYPE_CHECKING:
    from rich.table import Table

_TOOLS = ("mlir-opt", "mlir-translate", "opt", "llc", "cc")


@dataclass(frozen=True)
class Finding:
    """One line of the report. `missing` is the remedy where something needed is not there."""

    name: str
    found: str
    where: str = ""
    missing: str | None = None


def main() -> int:
    """Prints the report; returns 1 if anything needed is missing, else 0."""
    from rich.console import Console

    console = Console()
    with console.status("Looking at this machine"):
        findings = list(_findings())
    if console.is_terminal:
        console.print(_table(findings))
    else:
        for finding in findings:
            print(f"{finding.name}: {finding.found}" + (f" ({finding.where})" if finding.where else ""))

    missing = [finding for finding in findings if finding.missing is not None]
    if not missing:
        return 0
    print("\nMissing:")
    for finding in missing:
        print(f"  {finding.name}: {finding.missing}")
    return 1


def _findings() -> Iterator[Finding]:
    yield _python()
    yield _package(Requirement("scanweaver"))
    for requirement in _requirements():
        yield _package(requirement)
    for name in _TOOLS:
        yield _tool(name)
    yield _ptxas()
    yield from _cuda()
    yield _cache()


def _python() -> Finding:
    return Finding("Python", platform.python_version(), sys.executable)


def _requirements(extra: str = "") -> list[Requirement]:
    """What the installed distribution asks for: always, or with an extra. Nothing where it is not installed."""
    try:
        found = [Requirement(line) for line in requires("scanweaver") or ()]
    except PackageNotFoundError:
        return []
    if not extra:
        return [asked for asked in found if asked.marker is None or asked.marker.evaluate({"extra": ""})]
    return [asked for asked in found if asked.marker is not None and asked.marker.evaluate({"extra": extra})]


def _package(asked: Requirement) -> Finding:
    remedy = f"pip install '{asked.name}{asked.specifier}'"
    try:
        found = version(asked.name)
    except PackageNotFoundError:
        return Finding(asked.name, "not installed", missing=remedy)
    if not asked.specifier.contains(found, prereleases=True):
        return Finding(asked.name, f"{found}, not {asked.specifier}", missing=remedy)
    return Finding(asked.name, found)


def _tool(name: str) -> Finding:
    from scanweaver.gpu_exec.toolchain import find

    try:
        tool = find(name)
    except ToolchainError as error:
        return Finding(name, "not usable", missing=str(error).splitlines()[0])
    return Finding(name, tool.version(), str(tool.path))


def _ptxas() -> Finding:
    from scanweaver.gpu_exec.toolchain import look

    tool = look("ptxas")
    if tool is None:
        return Finding("ptxas", "none; the CUDA driver compiles PTX itself")
    return Finding("ptxas", tool.version(), str(tool.path))


def _cuda() -> Iterator[Finding]:
    """The driver and its GPUs, asked through the driver itself: a CPU build of torch sees none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        yield Finding("CUDA driver", "none; kernels run on the CPU")
        return
    status, number = driver.cuInit(0), ctypes.c_int()
    if status != 0:
        yield Finding("CUDA driver", f"cuInit returned {status}; kernels run on the CPU")
        return
    driver.cuDriverGetVersion(ctypes.byref(number))
    yield Finding("CUDA driver", f"{number.value // 1000}.{number.value % 1000 // 10}")
    driver.cuDeviceGetCount(ctypes.byref(number))
    for index in range(number.value):
        yield Finding(f"GPU {index}", _gpu_name(driver, index))
    if number.value:
        for requirement in _requirements("cuda"):
            yield _package(requirement)
        yield _torch_cuda()


def _gpu_name(driver: ctypes.CDLL, index: int) -> str:
    """Name and chip of one GPU, such as "NVIDIA H200 (sm_90)"."""
    device, number, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    chip = "sm_"
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        chip += str(number.value)
    return f"{name.value.decode()} ({chip})"


def _torch_cuda() -> Finding:
    import torch

    if torch.version.cuda is None:
        return Finding("torch on the GPU", "no: a CPU build", missing="install a CUDA build of torch")
    return Finding("torch on the GPU", f"built for CUDA {torch.version.cuda}")


def _cache() -> Finding:
    folder = config.cache_dir
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        remedy = f"cannot write to {above}: name another folder in SCANWEAVER_CACHE_DIR"
        return Finding("cache", "not writable", str(folder), remedy)
    return Finding("cache", _size(folder), str(folder))


def _size(folder: Path) -> str:
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB"


def _table(findings: list[Finding]) -> Table:
    from rich.table import Table

    table = Table("", "found", title="ScanWeaver")
    table.add_column("where", overflow="fold")
    for finding in findings:
        style = "red" if finding.missing is not None else ""
        table.add_row(finding.name, finding.found, finding.where, style=style)
    return table
