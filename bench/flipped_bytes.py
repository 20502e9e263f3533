"""Flips every byte in turn of every entry of a cache and of an artifact, and reads them again.

    python bench/flipped_bytes.py [--target sm_90] [--rebuild 997] [--seed 0]

A byte becomes another one, drawn at random. The cache must give nothing for a damaged entry and remove it, and for each
so many bytes a call must compile it again, with the result of before; the artifact must be refused with an error that
names the file. Exit status 1 where one byte passes. Entries are those of the CPU and, never called, of `--target`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import scanweaver as sw
from scanweaver.config import config
from scanweaver.gpu_exec.cache import Cache

SIGNATURE = "h[b d]; a[b d t], x[b d t]"
HEADER = 64


def step(h: Any, a: Any, x: Any) -> Any:
    return a * h + x


def flips(data: bytes, chosen: random.Random) -> Iterator[tuple[int, bytearray]]:
    """Each position, and the bytes with that one changed; the same memory each time."""
    flipped = bytearray(data)
    for i, byte in enumerate(data):
        flipped[i] ^= chosen.randrange(1, 256)
        yield i, flipped
        flipped[i] = byte


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("??/*"))


def flip_entry(path: Path, cache: Cache, chosen: random.Random) -> int:
    """How many flips were not noticed."""
    data, key = path.read_bytes(), path.parent.name + path.name
    missed = 0
    for _, flipped in flips(data, chosen):
        path.write_bytes(flipped)
        missed += cache.get(key) is not None or path.exists()
    path.write_bytes(data)
    return missed


def rebuild(path: Path, call: Any, positions: list[int], chosen: random.Random) -> int:
    """How many calls on a damaged entry do not give the result of before, or do not store it whole again."""
    data, want, key = path.read_bytes(), call(), path.parent.name + path.name
    wrong = 0
    for i in positions:
        flipped = bytearray(data)
        flipped[i] ^= chosen.randrange(1, 256)
        path.write_bytes(flipped)
        right = torch.equal(call(), want)
        wrong += not right or Cache(config.cache_dir).get(key) is None
    return wrong


def flip_artifact(path: Path, chosen: random.Random) -> int:
    """How many flips were not refused with an error that names the file."""
    missed = 0
    for _, flipped in flips(path.read_bytes(), chosen):
        path.write_bytes(flipped)
        try:
            sw.load(path)
            missed += 1
        except sw.ScanWeaverError as error:
            missed += str(path) not in str(error)
    return missed


def call_afresh() -> torch.Tensor:
    """A call of a recurrence that this process has not called: it comes from the cache or is compiled."""
    generator = torch.Generator().manual_seed(0)
    a, x = (torch.rand(2, 3, 50, generator=generator) for _ in range(2))
    return sw.recurrence(SIGNATURE)(step)(a, x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--rebuild", type=int, default=997)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chosen = random.Random(arguments.seed)
    passed = True

    def show(what: str, files: int, flipped: int, missed: int, start: float) -> None:
        nonlocal passed
        passed &= missed == 0
        print(f"{what:34} {files:5} {flipped:9} {missed:6} {time.perf_counter() - start:8.1f}", flush=True)

    with tempfile.TemporaryDirectory(prefix="flipped-bytes-") as folder:
        print(f"{'':34} files     flips missed  seconds")
        config.cache_dir = Path(folder) / "cpu"
        call_afresh()
        (path,) = entries(config.cache_dir)
        size, start = path.stat().st_size, time.perf_counter()
        positions = [*range(HEADER), *range(HEADER, size, arguments.rebuild)]
        show("entry of a call, compiled again", 1, len(positions), rebuild(path, call_afresh, positions, chosen), start)

        config.cache_dir = Path(folder) / "ahead"
        ahead = sw.recurrence(SIGNATURE)(step)
        made = ahead.compile(arguments.target, dtypes=torch.float32, init=False, return_last=False)
        made.save(Path(folder) / "a.swa")
        call_afresh()
        paths, start = entries(config.cache_dir), time.perf_counter()
        flipped = sum(path.stat().st_size for path in paths)
        cache = Cache(config.cache_dir)
        show("entries", len(paths), flipped, sum(flip_entry(path, cache, chosen) for path in paths), start)

        path, start = Path(folder) / "a.swa", time.perf_counter()
        show("artifact", 1, path.stat().st_size, flip_artifact(path, chosen), start)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
