"""Members and a manifest as one file of plain bytes, and back, whoever wrote it.

The file is a zip archive, readable with any unzip: `manifest.json`, and members whose sha256 the manifest holds. The
archive's comment, its last bytes, is the sha256 of everything before it. Reading executes nothing, writes nothing to
disk and is bounded in memory: what is damaged, too large or oddly named is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, cast

from scanweaver.errors import ScanWeaverError

MANIFEST = "manifest.json"
MAX_BYTES = 1 << 29
"""Of all members together, unpacked; and of the file."""
MAX_MEMBERS = 4096

_DIGEST_BYTES = 64  # hexadecimal
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same members give the same bytes
_NAME = re.compile(r"(?:(?!\.+(?:/|$))[A-Za-z0-9_.+-]+(?:/(?!$)|$))+")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What zipfile, zlib and json raise over bytes that are not what they expect.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, OverflowError)


class DamagedArtifactError(ScanWeaverError):
    """The bytes are no artifact, or not the bytes that were written."""


def pack(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """The file; `unpack` gives both back, the manifest with the members' checksums as `sha256`."""
    text = json.dumps({**manifest, "sha256": _sums(members)}, indent=1, allow_nan=False)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = bytes(_DIGEST_BYTES)  # its place and length; the digest covers the length too
        for name, data in {MANIFEST: text.encode(), **members}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, compresslevel=1)
    body = file.getvalue()[:-_DIGEST_BYTES]
    return body + hashlib.sha256(body).hexdigest().encode()


def unpack(data: bytes, *, verified: bool = False) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the members, in the file's order; raises DamagedArtifactError for anything else.

    `verified`: the caller has compared a checksum over all of `data`, and no byte is hashed again.
    """
    if not verified:
        body, digest = memoryview(data)[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise DamagedArtifactError(f"the checksum over {len(data)} bytes does not hold")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = _members(archive)
        if MANIFEST not in members:
            raise DamagedArtifactError(f"no artifact of ScanWeaver: it holds no {MANIFEST}")
        manifest = json.loads(members.pop(MANIFEST))
    except _BROKEN as error:
        raise DamagedArtifactError(f"no artifact of ScanWeaver: {error!r}") from error
    if not isinstance(manifest, dict):
        raise DamagedArtifactError(f"{MANIFEST} holds no object")
    manifest = cast("dict[str, Any]", manifest)
    if not verified and _sums(members) != manifest.get("sha256"):
        raise DamagedArtifactError("a member is missing, is one too many, or its checksum does not hold")
    return manifest, members


def _sums(members: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise DamagedArtifactError(f"{len(entries)} members; at most {MAX_MEMBERS} are read")
    for entry in entries:
        if not _NAME.fullmatch(entry.orig_filename) or entry.filename != entry.orig_filename:
            raise DamagedArtifactError(f"a member is called {entry.orig_filename[:100]!r}, which is no plain path")
        if entry.compress_type not in _METHODS or entry.flag_bits & 1:
            raise DamagedArtifactError(f"{entry.filename}: packed by another method than deflate, or encrypted")
    if len({entry.filename for entry in entries}) != len(entries):
        raise DamagedArtifactError("two members have one name")
    total = sum(entry.file_size for entry in entries)
    if total > MAX_BYTES:
        raise DamagedArtifactError(f"its members unpack to {total} bytes; at most {MAX_BYTES} are read")
    # `read` stops at the size that was declared, however much the packed bytes would give.
    return {entry.filename: archive.read(entry) for entry in entries}
