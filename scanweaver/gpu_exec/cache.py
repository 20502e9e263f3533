"""A disk cache whose keys are hashes of everything that decides the value, so that nothing ever goes stale.

Each entry is one file, `sha256(key + value)` and then the value: what is read is verified to the last byte, once.
Writers rename finished files into place, so processes may race and be killed at any point.

An entry's time is when it was last read. Who opens a cache that is above MAX_BYTES drops what was not read for
UNREAD_SECONDS, oldest first, until it is below. An entry that is dropped while another process reads or writes it costs
that process nothing, at most a later one a compilation.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from scanweaver.config import config
from scanweaver.cpu_exec import host as host_cpu
from scanweaver.gpu_exec import toolchain
from scanweaver.gpu_exec.artifact import Artifact, DamagedArtifactError, write_atomically

_DIGEST_BYTES = 32
_STALE_SECONDS = 3600

MAX_BYTES = 512 * 2**20
UNREAD_SECONDS = 30 * 24 * 3600

GPU_TOOLS = ("mlir-opt", "ptxas")
CPU_TOOLS = ("mlir-opt", "mlir-translate", "opt", "llc", "cc")


class Cache:
    """Bytes by key in `directory`. A directory that cannot be used costs one warning and all hits, no error."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._unfinished = directory / "unfinished"
        self._opened = False
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """The value, or None where there is none or it was damaged (it is then removed, to be made again)."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._give_up("read", error)
        digest, value = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if digest == _digest(key, value):
            with suppress(OSError):  # a cache that may only be read; an entry that was just dropped
                os.utime(path)
            return value
        self.remove(key)
        return None

    def put(self, key: str, value: bytes) -> None:
        """Stores the value; where two processes do, either's is kept whole."""
        path = self._path(key)
        try:
            if not (self._opened and self._unfinished.is_dir()):
                self._open()
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, _digest(key, value) + value, self._unfinished)
        except OSError as error:
            self._give_up("written", error)

    def remove(self, key: str) -> None:
        """Forgets the value, if there is one."""
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            self._give_up("written", error)

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / key[2:]

    def _open(self) -> None:
        """Makes the directory, for its owner alone: it holds code that will be run. Sweeps up after the
        killed, tools' folders too, and drops what is no longer read."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._unfinished.mkdir(exist_ok=True)
        long_ago = time.time() - _STALE_SECONDS
        for left in self._unfinished.iterdir():
            try:
                if left.stat().st_mtime < long_ago:
                    left.unlink()
            except FileNotFoundError:
                pass  # another process swept it
        toolchain.sweep()
        self._drop_unread()
        self._opened = True

    def _drop_unread(self) -> None:
        entries: list[tuple[float, int, Path]] = []
        for path in self.directory.glob("??/*"):
            with suppress(FileNotFoundError):
                stat = path.stat()
                entries.append((stat.st_mtime, stat.st_size, path))
        excess = sum(size for _, size, _ in entries) - MAX_BYTES
        long_ago = time.time() - UNREAD_SECONDS
        for read, size, path in sorted(entries):
            if excess <= 0 or read >= long_ago:
                break
            path.unlink(missing_ok=True)
            excess -= size

    def _give_up(self, what: str, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the cache {self.directory} cannot be {what} ({error}): what is compiled is not kept. "
                f"SCANWEAVER_CACHE_DIR names another directory.",
                RuntimeWarning,
                stacklevel=4,
            )


def default_cache() -> Cache:
    """The cache in `config.cache_dir`, one object a directory."""
    return _cache_in(config.cache_dir)


def artifact_key(recurrence: str, target: str, options: Mapping[str, Any]) -> str:
    """The key of an artifact: recurrence text, target, options (JSON values), our source, and the tools.

    For the host its CPU counts too. Starts no tool.
    """
    host = target == "cpu"
    parts = {
        "recurrence": recurrence,
        "target": target,
        "options": options,
        "scanweaver": source_hash(),
        "tools": [toolchain.identity(name) for name in (CPU_TOOLS if host else GPU_TOOLS)],
        "host": host_cpu.identity() if host else "",
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def get_or_compile(key: str, compile: Callable[[], Artifact], cache: Cache | None = None) -> Artifact:
    """The artifact under `key`, from disk or, for the first time or where it was damaged, from `compile`."""
    cache = cache or default_cache()
    data = cache.get(key)
    if data is not None:
        try:
            return Artifact.from_bytes(data, verified=True)
        except DamagedArtifactError:
            cache.remove(key)
    artifact = compile()
    cache.put(key, artifact.to_bytes())
    return artifact


@cache
def source_hash() -> str:
    """sha256 over ScanWeaver's own Python files: another version of the compiler has other keys."""
    root = Path(__file__).parents[1]
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        whole.update(f"{path.relative_to(root)} {len(data)}\n".encode() + data)
    return whole.hexdigest()


@cache
def _cache_in(directory: Path) -> Cache:
    return Cache(directory)


def _digest(key: str, value: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(value)
    return digest.digest()
