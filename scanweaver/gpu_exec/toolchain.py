"""The tools below the IR: finding them, telling them apart for cache keys, and running them, loudly.

Nothing here imports torch or xDSL, and nothing starts a tool until one is run or asked for its version.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scanweaver.config import config
from scanweaver.errors import ToolchainError

LLVM_MAJOR = 22

# Stand in a command for the input's path, the output's path and the folder of both.
INPUT, OUTPUT, FOLDER = "@input@", "@output@", "@folder@"

_WHEEL = f'pip install "scanweaver[mlir]" (MLIR and LLVM {LLVM_MAJOR})'
_INSTALL = {
    "mlir-opt": _WHEEL,
    "mlir-translate": _WHEEL,
    "opt": _WHEEL,
    "llc": _WHEEL,
    "cc": "a C compiler (Debian: apt install gcc)",
    "ptxas": "pip install nvidia-cuda-nvcc, or the CUDA toolkit 12.8 or later",
}
_MLIR_TOOLS = ("mlir-opt", "mlir-translate", "opt", "llc")
_DEFAULT_CUDA = Path("/usr/local/cuda")
_KEPT_SECONDS = 7 * 24 * 3600
LIBRARY = "library"
"""What folders of libraries on their way into a process are named after, as a tool's are after the tool."""


@dataclass(frozen=True)
class Tool:
    """A tool that was found."""

    name: str
    path: Path

    def identity(self) -> str:
        """What a cache key says of the tool: path, size and time, without starting it."""
        stat = self.path.stat()
        return f"{self.path}:{stat.st_size}:{stat.st_mtime_ns}"

    def version(self) -> str:
        """The version it prints about itself; starts the tool, once a process."""
        return _version(self.path, self.identity())


@dataclass(frozen=True)
class Ran:
    """What a tool left: its output (the file at OUTPUT, or stdout), its stderr, and other files it wrote."""

    output: bytes
    stderr: str
    files: dict[str, str]


def look(name: str) -> Tool | None:
    """The tool, or None. `config.mlir_opt` comes first, for the other MLIR tools its folder.

    MLIR's wheels come before PATH: the `mlir` extra installed them for this very version of ScanWeaver.
    """
    for candidate in _candidates(name):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return Tool(name, candidate)
    return None


def find(name: str) -> Tool:
    """The tool; raises ToolchainError that says where it was looked for and what to install.

    Of MLIR's and LLVM's tools the major version is checked, which starts the tool, once a process.
    """
    tool = look(name)
    if tool is None:
        why = f": {_misnamed(config.mlir_opt)}" if name == "mlir-opt" and config.mlir_opt else ""
        raise ToolchainError(f"{name} was not found{why}. Install: {_INSTALL[name]}.\nLooked for:\n{_places(name)}")
    if name in _MLIR_TOOLS:
        _require_llvm(tool)
    return tool


def identity(name: str) -> str:
    """`Tool.identity` of the tool that `find` would give, or `missing`; starts nothing."""
    tool = look(name)
    return f"{name}={tool.identity() if tool else 'missing'}"


def run_tool(tool: Tool, arguments: Sequence[str], text: str | bytes, *, suffix: str, loud: bool = True) -> Ran:
    """Runs `tool` on `text`, which lies in a file at INPUT; its output is the file at OUTPUT, or else stdout.

    `loud`: anything on stderr is a failure (mlir-opt exits 0 after dropping what it does not know).
    On failure raises ToolchainError with stderr and the command to repeat; the input stays on disk for it.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix(tool.name)))
    kept = False
    try:
        source, target = folder / f"input{suffix}", folder / "output"
        source.write_bytes(text.encode() if isinstance(text, str) else text)
        places = {INPUT: source, OUTPUT: target, FOLDER: folder}
        command = [str(tool.path), *(_fill(argument, places) for argument in arguments)]
        done = subprocess.run(command, capture_output=True, check=False)
        stderr = done.stderr.decode(errors="replace")
        if done.returncode != 0 or (loud and stderr.strip()):
            kept = True
            raise ToolchainError(_failure(tool, command, done.returncode, stderr, source))
        written = {
            str(path.relative_to(folder)): path.read_text()
            for path in folder.rglob("*")
            if path.is_file() and path not in (source, target)
        }
        return Ran(target.read_bytes() if target.exists() else done.stdout, stderr, written)
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Removes the folders that `run_tool` kept after failures, or a killed process could not remove, a week ago."""
    long_ago = time.time() - _KEPT_SECONDS
    names = (*_INSTALL, LIBRARY)
    for folder in (path for name in names for path in Path(tempfile.gettempdir()).glob(f"{prefix(name)}????????")):
        with suppress(OSError):  # another process swept it
            stat = folder.lstat()
            if stat.st_uid == os.getuid() and stat.st_mtime < long_ago:
                shutil.rmtree(folder, ignore_errors=True)


def find_file(*relative: str) -> Path | None:
    """The first of some files that ships in a wheel or in the CUDA toolkit, such as libdevice."""
    roots = [*_cuda_homes(), *_packages(), _DEFAULT_CUDA]
    return next((root / name for root in roots for name in relative if (root / name).is_file()), None)


def _candidates(name: str) -> Iterator[Path]:
    named = config.mlir_opt
    if name == "mlir-opt" and named:
        yield named  # and nothing else: whoever names a tool means that one
    elif name in _MLIR_TOOLS:
        if named:
            yield named.parent / name
        yield from (root / part / "bin" / name for root in _packages() for part in ("mlir", "llvm"))
        yield from (folder / f"{name}-{LLVM_MAJOR}" for folder in _path())
        yield from (folder / name for folder in _path())
        yield Path(f"/usr/lib/llvm-{LLVM_MAJOR}/bin") / name
    elif name == "cc":
        yield from (folder / compiler for compiler in ("cc", "gcc", "clang") for folder in _path())
    else:
        yield from (folder / name for folder in _path())
        yield from (home / "bin" / name for home in _cuda_homes())
        parts = ("nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin")
        yield from (root / part / name for root in _packages() for part in parts)
        yield _DEFAULT_CUDA / "bin" / name


def _path() -> list[Path]:
    return [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]


def _packages() -> list[Path]:
    return [Path(entry) for entry in sys.path if entry]


def _cuda_homes() -> list[Path]:
    named = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")]
    return [Path(home) for home in named if home]


def _misnamed(path: Path) -> str:
    """What is wrong with a name that was given for mlir-opt, and where it was given."""
    given = os.environ.get("SCANWEAVER_MLIR_OPT")
    setting = "SCANWEAVER_MLIR_OPT" if given and Path(given).expanduser() == path else "config.mlir_opt"
    return f"{setting} names {path}, which is {'no program' if path.exists() else 'not there'}"


def _places(name: str) -> str:
    return "\n".join(f"  {candidate}" for candidate in dict.fromkeys(_candidates(name)))


def prefix(name: str) -> str:
    """How temporary folders begin, by which `sweep` knows them."""
    return f"scanweaver-{name}-"


def _fill(argument: str, places: dict[str, Path]) -> str:
    for mark, place in places.items():
        argument = argument.replace(mark, str(place))
    return argument


def _failure(tool: Tool, command: list[str], code: int, stderr: str, source: Path) -> str:
    how = f"exited with {code}" if code else "exited with 0 but complained"
    log = source.with_name("stderr.txt")
    log.write_text(stderr)
    told = stderr.strip() or "(nothing on stderr)"
    if len(told) > 4000:
        told = f"{told[:4000]}\n… (all of it: {log})"
    return f"{tool.name} {how}:\n{told}\nIts input: {source}\nTo repeat: {shlex.join(command)}"


@cache
def _version(path: Path, identity: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, check=False, text=True)
    found = re.search(r"(?:LLVM version|release|\)) v?(\d+(?:\.\d+)+)", done.stdout)
    return found.group(1) if found else (done.stdout + done.stderr).strip()


def _require_llvm(tool: Tool) -> None:
    version = tool.version()
    if version.split(".")[0] != str(LLVM_MAJOR):
        raise ToolchainError(
            f"{tool.name}: LLVM {LLVM_MAJOR} is needed, {tool.path} is {version!r}. "
            f"Install: {_INSTALL[tool.name]}, or name the right mlir-opt in SCANWEAVER_MLIR_OPT."
        )
