"""One compiled recurrence as one file of plain bytes: stages' text, binaries, recipe, and how they came about.

The file is a zip archive, readable with any unzip: `manifest.json`, `stages/<nn>-<name>`, `binaries/<name>`. The
manifest holds each member's sha256; the archive's comment, its last bytes, is the sha256 of everything before it.
Nothing in it is executed by reading it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scanweaver.errors import ScanWeaverError
from scanweaver.gpu_exec.abi import Recipe

FORMAT = 1
_DIGEST_BYTES = 64  # hexadecimal
_MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same artifact gives the same bytes


class DamagedArtifactError(ScanWeaverError):
    """The bytes are no artifact, or not the bytes that were written."""


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

    def to_bytes(self) -> bytes:
        """The file; `from_bytes` gives the artifact back."""
        members = {f"stages/{i:02}-{name}": text.encode() for i, (name, text) in enumerate(self.stages.items())}
        members |= {f"binaries/{name}": binary for name, binary in self.binaries.items()}
        manifest = {
            "format": FORMAT,
            "name": self.name,
            "target": self.target,
            "recipe": self.recipe.to_json(),
            "resources": self.resources,
            "tools": self.tools,
            "milliseconds": self.milliseconds,
            "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        }
        members = {_MANIFEST: json.dumps(manifest, indent=1).encode(), **members}
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.comment = bytes(_DIGEST_BYTES)  # its place and length; the digest covers the length too
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, compresslevel=1)
        body = file.getvalue()[:-_DIGEST_BYTES]
        return body + hashlib.sha256(body).hexdigest().encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        """Raises DamagedArtifactError where one byte differs from what was written, or the format is newer."""
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise DamagedArtifactError(f"the checksum over {len(data)} bytes does not hold")
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            manifest: dict[str, Any] = json.loads(members.pop(_MANIFEST))
            if manifest["format"] != FORMAT:
                raise DamagedArtifactError(f"format {manifest['format']!r}; this version reads {FORMAT}")
            sums = {name: hashlib.sha256(member).hexdigest() for name, member in members.items()}
            if sums != manifest["sha256"]:
                raise DamagedArtifactError("a member's checksum does not hold")
            stages = {name[10:]: members[name].decode() for name in sorted(members) if name.startswith("stages/")}
            binaries = {name[9:]: members[name] for name in members if name.startswith("binaries/")}
            return cls(
                manifest["name"],
                manifest["target"],
                Recipe.from_json(manifest["recipe"]),
                stages,
                binaries,
                manifest["resources"],
                manifest["tools"],
                manifest["milliseconds"],
            )
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise DamagedArtifactError(f"no artifact of ScanWeaver: {error!r}") from error

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


def write_atomically(path: Path, data: bytes, temporary: Path | None = None) -> None:
    """Readers see the old file or the new one, also where the writer is killed.

    `temporary`: the folder for the unfinished file, on the same file system; else it lies beside `path`.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:16]}-", dir=temporary or path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
