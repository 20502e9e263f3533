"""An artifact's stages as lines of a table, and as files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.transforms.pipelines import Options, passes

_TOOLS = {
    "nvvm": ("mlir-opt",),
    "ptx": ("mlir-opt",),
    "cubin": ("ptxas",),
    "llvm": ("mlir-opt", "mlir-translate", "opt"),
    "asm": ("llc",),
    "so": ("cc",),
}
_FILES = {"llvm": "llvm.ll", "asm": "kernel.s", "ptx": "kernel.ptx"}


@dataclass(frozen=True)
class Stage:
    """`size`: lines of text, or bytes of a binary. `milliseconds`: None where the stage before has them."""

    name: str
    made_by: str
    size: str
    milliseconds: float | None


def stages(artifact: Artifact) -> Iterator[Stage]:
    """The stages in order, binaries last."""
    ours = {name: ", ".join(each.name for each in made_by) for name, made_by in passes(artifact.target, Options())}
    spent = dict(artifact.milliseconds)
    for name, text in artifact.stages.items():
        made_by = ours.get(name) or ", ".join(_TOOLS.get(name, ("trace of the Python step",)))
        yield Stage(name, made_by, f"{len(text.splitlines())} lines", _take(spent, _TOOLS.get(name, (name,))))
    for name, binary in artifact.binaries.items():
        yield Stage(name, ", ".join(_TOOLS[name]), f"{len(binary)} bytes", _take(spent, _TOOLS[name]))


def _take(spent: dict[str, float], names: tuple[str, ...]) -> float | None:
    """The time of these, each counted once: one call of mlir-opt leaves two stages."""
    found = [spent.pop(name) for name in names if name in spent]
    return sum(found) if found else None


def write_stages(artifact: Artifact, folder: Path) -> None:
    """Every stage's text and the binary, one file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in artifact.stages.items():
        (folder / _FILES.get(name, f"{name}.mlir")).write_text(text)
    for name, binary in artifact.binaries.items():
        (folder / f"kernel.{name}").write_bytes(binary)
