"""Processes race on one empty cache directory while half of them are killed, round after round.

    python bench/cache_race.py [--processes 16] [--rounds 50] [--rewriting 3] [--seed 0]

Each process calls recurrences that are not compiled yet and holds the results against the loop over time in float64,
calls them again from disk, and then reads and writes their entries again and again, for some seconds: a kill finds it
at any of this. A survivor's error, warning or wrong result, an entry that is damaged or one too many, more left in the
cache and for tools than one file or folder a kill, or anything left later (unfinished entries are kept for an hour,
tools' folders for a week), fails: exit status 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

import scanweaver as sw
from scanweaver.config import config
from scanweaver.gpu_exec.cache import Cache

GAINS = (0.5, 2.0)
LATER = 8 * 24 * 3600


@dataclass
class Round:
    """What a round came to. `left`: unfinished files of killed writers, `folders`: of killed callers of tools, and what
    is `still_left` of either later."""

    seconds: float
    killed: int
    failed: int
    entries: int
    damaged: int
    left: int
    folders: int
    still_left: int

    @property
    def holds(self) -> bool:
        whole = self.entries == len(GAINS) and not self.damaged
        few = self.left + self.folders <= self.killed and not self.still_left
        return not self.failed and whole and few


def fresh() -> Any:
    """A recurrence that this process has not called: what it calls comes from the cache, or is compiled."""

    @sw.recurrence("h[b]; a[b t], x[b t]")
    def step(h: Any, a: Any, x: Any, *, gain: float) -> Any:
        return a * h + gain * x

    return step


def check(gain: float) -> None:
    a, x = torch.rand(3, 50), torch.rand(3, 50)
    h, steps = torch.zeros(3, dtype=torch.float64), list[torch.Tensor]()
    for t in range(50):
        h = a[:, t].double() * h + gain * x[:, t].double()
        steps.append(h)
    torch.testing.assert_close(fresh()(a, x, gain=gain).double(), torch.stack(steps, 1), rtol=1e-5, atol=1e-6)


def race(directory: Path, seed: int, rewriting: float) -> None:
    """What each process does."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    chosen = random.Random(seed)
    config.cache_dir = directory
    for gain in 2 * chosen.sample(GAINS, len(GAINS)):
        check(gain)
    end = time.perf_counter() + rewriting
    while time.perf_counter() < end:
        opened, key = Cache(directory), chosen.choice(keys(directory))
        value = opened.get(key)
        assert value is not None, "an entry is lost or damaged"
        opened.put(key, value)
    check(chosen.choice(GAINS))


def keys(directory: Path) -> list[str]:
    return [path.parent.name + path.name for path in directory.glob("??/*")]


def run_round(folder: Path, processes: int, rewriting: float, within: float, chosen: random.Random) -> Round:
    """`within`: the seconds from the start in which victims are killed."""
    directory, temporary = folder / "cache", folder / "temporary"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    fork = multiprocessing.get_context("fork")  # what is imported is imported once
    started = [fork.Process(target=race, args=(directory, chosen.getrandbits(32), rewriting)) for _ in range(processes)]
    start = time.perf_counter()
    for process in started:
        process.start()
    killed = kill(chosen.sample(started, processes // 2), within, chosen)
    for process in started:
        process.join()
    seconds = time.perf_counter() - start
    failed = sum(process.exitcode != 0 for process in started if process not in killed)
    found = keys(directory)
    damaged = sum(Cache(directory).get(key) is None for key in found)

    left, folders = [*(directory / "unfinished").iterdir()], [*temporary.iterdir()]
    then = time.time() - LATER
    for path in left + folders:
        os.utime(path, (then, then))
    Cache(directory).put("0" * 64, b"")  # opens it
    still_left = sum(path.exists() for path in left + folders)
    return Round(seconds, len(killed), failed, len(found), damaged, len(left), len(folders), still_left)


def kill(victims: list[BaseProcess], within: float, chosen: random.Random) -> list[BaseProcess]:
    """Kills each at a moment of its own; gives those that were still running."""
    killed: list[BaseProcess] = []
    passed = 0.0
    for moment, victim in sorted(((chosen.uniform(0, within), victim) for victim in victims), key=lambda pair: pair[0]):
        time.sleep(moment - passed)
        passed = moment
        victim.kill()
        victim.join()
        if victim.exitcode and victim.exitcode < 0:
            killed.append(victim)
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--rewriting", type=float, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chosen = random.Random(arguments.seed)
    torch.set_num_threads(1)
    rounds: list[Round] = []
    within = arguments.rewriting + 0.3 * arguments.processes
    with tempfile.TemporaryDirectory() as folder:  # what a process imports and starts once, all have then
        config.cache_dir = Path(folder)
        check(1.0)
    print("round  seconds  killed  failed  entries  damaged  left: files  folders  later")
    for i in range(arguments.rounds):
        tempfile.tempdir = None
        with tempfile.TemporaryDirectory(prefix="cache-race-") as folder:
            rounds.append(run_round(Path(folder), arguments.processes, arguments.rewriting, within, chosen))
        r = rounds[-1]
        within = 0.8 * r.seconds  # the round lasts until the last kill at least
        counts = f"{r.killed:7} {r.failed:7} {r.entries:8} {r.damaged:8} {r.left:12} {r.folders:8} {r.still_left:6}"
        print(f"{i:5} {r.seconds:8.1f} {counts}", flush=True)
    failed, killed, left, folders, still_left = (
        sum(getattr(r, name) for r in rounds) for name in ("failed", "killed", "left", "folders", "still_left")
    )
    print(
        f"{len(rounds)} rounds of {arguments.processes} processes in {sum(r.seconds for r in rounds):.0f} s: "
        f"{killed} killed, {failed} of the others failed, {left} files and {folders} folders left, {still_left} later"
    )
    sys.exit(not all(r.holds for r in rounds))


if __name__ == "__main__":
    main()
