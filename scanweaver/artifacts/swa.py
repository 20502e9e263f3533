"""Artifacts as files: `sw.load`, and the bytes that `save` writes. The format is docs/artifacts.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import scanweaver
from scanweaver.artifacts.compiled import CompiledRecurrence
from scanweaver.artifacts.contract import Contract
from scanweaver.artifacts.variants import Variant
from scanweaver.cpu_exec import host
from scanweaver.errors import ScanWeaverError, SignatureError, UnsupportedError
from scanweaver.explain.words import Explanation
from scanweaver.gpu_exec.archive import MAX_BYTES, DamagedArtifactError, pack, unpack
from scanweaver.gpu_exec.artifact import Artifact

FORMAT = 1

_TEXT, _REMARKS = "explanation.txt", "remarks.json"


def load(path: str | Path) -> CompiledRecurrence:
    """The compiled recurrence that `art.save(path)` wrote. Calls need no mlir-opt; nothing runs before the first one.

    An artifact holds machine code: call only what you would run. Raises OSError where the file cannot be read,
    DamagedArtifactError (a ScanWeaverError) naming the file where it is not what `save` wrote, UnsupportedError for
    another version's file and for one made for a CPU with instructions that this one lacks.
    """
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SignatureError(f"sw.load: expected a path, got {type(path).__name__}")
    path = Path(path)
    if path.stat().st_size > MAX_BYTES:
        raise DamagedArtifactError(f"{path}: {path.stat().st_size} bytes; at most {MAX_BYTES} are read")
    try:
        return from_bytes(path.read_bytes())
    except DamagedArtifactError as error:
        raise DamagedArtifactError(f"{path}: {error}") from error
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from error


def to_bytes(contract: Contract, variants: Sequence[Variant], explanation: Explanation) -> bytes:
    """The file; raises ScanWeaverError for a constant that no file can hold."""
    members = {
        _TEXT: explanation.text.encode(),
        _REMARKS: json.dumps(explanation.remarks, indent=1).encode(),
    }
    entries: list[dict[str, Any]] = []
    for i, variant in enumerate(variants):
        manifest, own = variant.artifact.to_parts()
        entries.append({**variant.to_json(), "artifact": manifest})
        members |= {f"{_folder(i)}{name}": data for name, data in own.items()}
    manifest = {
        "format": FORMAT,
        "scanweaver": scanweaver.__version__,
        "contract": contract.to_json(),
        "host": host.description() if contract.target == "cpu" else None,
        "variants": entries,
    }
    return pack(manifest, members)


def from_bytes(data: bytes) -> CompiledRecurrence:
    """The inverse of `to_bytes`; raises as `load` does."""
    manifest, members = unpack(data)
    if "contract" not in manifest:
        raise DamagedArtifactError("no artifact that `save` of a compiled recurrence wrote: it has no contract")
    if manifest.get("format") != FORMAT:
        made_by = manifest.get("scanweaver")
        raise UnsupportedError(
            f"format {manifest.get('format')!r}, written by ScanWeaver {made_by!r}; this version reads {FORMAT}"
        )
    try:
        contract = Contract.from_json(manifest["contract"])
        variants = list(_variants(manifest["variants"], members, contract))
        explanation = Explanation(members[_TEXT].decode(), json.loads(members[_REMARKS]))
        if contract.target == "cpu":
            host.require(manifest["host"])
    except UnsupportedError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, ScanWeaverError) as error:
        raise DamagedArtifactError(f"no artifact of ScanWeaver: {error!r}") from error
    return CompiledRecurrence(contract, variants, explanation)


def _variants(entries: Any, members: Mapping[str, bytes], contract: Contract) -> Iterator[Variant]:
    if not isinstance(entries, list) or not entries:
        raise TypeError("variants is a list of one or more")
    for i, entry in enumerate(cast("list[dict[str, Any]]", entries)):
        folder = _folder(i)
        own = {name[len(folder) :]: data for name, data in members.items() if name.startswith(folder)}
        yield Variant.from_json(entry, Artifact.from_parts(entry["artifact"], own), contract)


def _folder(i: int) -> str:
    return f"variants/{i:02}/"
