"""One compiled recurrence as one file of plain bytes: stages' text, binaries, recipe, and how they came about.

Its members (see `archive.py`) are `manifest.json`, `stages/<nn>-<name>`, `binaries/<name>`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from scanweaver.errors import ScanWeaverError
from scanweaver.gpu_exec.abi import Recipe
from scanweaver.gpu_exec.archive import DamagedArtifactError, pack, unpack

__all__ = ["Artifact", "DamagedArtifactError", "write_atomically"]

FORMAT = 1


@dataclass
class Artifact:
    """What was compiled for `target` (`sm_90`, …, or `cpu`).

    `stages`: text by name, in order (`recurrence`, `scan`, `scheduled`, `gpu` or `cpu`, `nvvm` or `llvm`, `ptx` or
    `asm`). `binaries`: `cubin` or `so`. `resources`: what each kernel takes. `tools`: versions. `milliseconds`: by
    stage or tool.
    """

    name: str
    target: str
    recipe: Recipe
    stages: dict[str, str]
    binaries: dict[str, bytes] = field(default_factory=dict[str, bytes])
    resources: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    milliseconds: dict[str, float] = field(default_factory=dict[str, float])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What its manifest says, as JSON values, and its members by name."""
        members = {f"stages/{i:02}-{name}": text.encode() for i, (name, text) in enumerate(self.stages.items())}
        members |= {f"binaries/{name}": binary for name, binary in self.binaries.items()}
        manifest = {
            "name": self.name,
            "target": self.target,
            "recipe": self.recipe.to_json(),
            "resources": self.resources,
            "tools": self.tools,
            "milliseconds": self.milliseconds,
        }
        return manifest, members

    @classmethod
    def from_parts(cls, manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> Artifact:
        """The inverse of `to_parts`; raises DamagedArtifactError where a part is missing or of another kind."""
        try:
            resources = _table(manifest["resources"], dict)
            return cls(
                _kind(manifest["name"], str),
                _kind(manifest["target"], str),
                Recipe.from_json(_kind(manifest["recipe"], dict)),
                {name[10:]: members[name].decode() for name in sorted(members) if name.startswith("stages/")},
                {name[9:]: members[name] for name in members if name.startswith("binaries/")},
                {kernel: _table(takes, int) for kernel, takes in resources.items()},
                _table(manifest["tools"], str),
                _table(manifest["milliseconds"], float | int),
            )
        except (KeyError, TypeError, ValueError, ScanWeaverError) as error:
            raise DamagedArtifactError(f"no artifact of ScanWeaver: {error!r}") from error

    def to_bytes(self) -> bytes:
        """The file; `from_bytes` gives the artifact back."""
        manifest, members = self.to_parts()
        return pack({"format": FORMAT, **manifest}, members)

    @classmethod
    def from_bytes(cls, data: bytes, *, verified: bool = False) -> Artifact:
        """Raises DamagedArtifactError where one byte differs from what was written, or the format is newer.

        `verified`: see `unpack`.
        """
        manifest, members = unpack(data, verified=verified)
        if manifest.get("format") != FORMAT:
            raise DamagedArtifactError(f"format {manifest.get('format')!r}; this version reads {FORMAT}")
        return cls.from_parts(manifest, members)

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all."""
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Artifact:
        """Raises DamagedArtifactError, naming the file, where it is not what `save` wrote."""
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except DamagedArtifactError as error:
            raise DamagedArtifactError(f"{path}: {error}") from error


def _kind(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind}, got {type(value).__name__}")
    return value


def _table(value: Any, kind: Any) -> dict[str, Any]:
    """A dictionary of values of one kind."""
    items = cast("dict[str, Any]", _kind(value, dict)).items()
    return {key: _kind(item, kind) for key, item in items}


def write_atomically(path: Path, data: bytes, temporary: Path | None = None) -> None:
    """Readers see the old file or the new one, also where the writer is killed.

    `temporary`: the folder for the unfinished file, on the same file system; else it lies beside `path`.
    """
    unfinished = (temporary or path.parent) / f".{path.name[:16]}-{secrets.token_hex(8)}"
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # as the umask has it
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
