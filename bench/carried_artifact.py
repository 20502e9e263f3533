"""Artifacts made on one machine and run on another, where no tool is, against what is compiled there.

    python bench/carried_artifact.py make DIR [--target sm_90]     # no GPU needed; writes DIR/*.swa
    python bench/carried_artifact.py check DIR                     # on the machine to run on

`check` compiles the same recurrences in this process, into an empty cache, and calls them on seeded inputs in several
layouts, with and without init= and return_last=. A second process, which finds neither mlir-opt nor a compiler nor
xDSL and has an empty cache, loads the files and makes the same calls. Every result must have the same bits, and be
close to the step in float64 and time order. Exit status 1 where one is not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sanitize import affine, in_time_order, rnn, selective

import scanweaver as sw
from scanweaver.config import config

LENGTH = 300


@sw.recurrence("h[b n]:complex64; x[b t], lam[n] -> y[b t]")
def rotation(h: Any, x: Any, lam: Any) -> Any:
    h = lam * h + x
    return h, sw.real(sw.sum(h, "n"))


def rotation_in_time_order(x: torch.Tensor, lam: torch.Tensor) -> list[torch.Tensor]:
    h, outputs = torch.zeros(len(x), len(lam), dtype=torch.complex128), list[torch.Tensor]()
    for t in range(x.shape[1]):
        h = lam.to(torch.complex128) * h + x[:, t, None]
        outputs.append(h.sum(1).real)
    return [torch.stack(outputs, 1), h]


# What is not between 0 and 1: states decay.
SHAPED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "A": lambda x: -x,
    "W": lambda x: (x - 0.5) / 4,
    "lam": lambda x: torch.polar(x, 6 * x),
}


@dataclass(frozen=True)
class Case:
    """`shapes` and `dtypes` by input; the error that its dtype allows."""

    recurrence: Any
    shapes: dict[str, tuple[int, ...]]
    request: dict[str, Any]
    allowed: float

    @property
    def name(self) -> str:
        return self.recurrence.name

    def inputs(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        drawn = {name: torch.rand(shape, generator=generator) for name, shape in self.shapes.items()}
        drawn = {name: SHAPED[name](x) if name in SHAPED else x for name, x in drawn.items()}
        return [x.to(self.request["dtypes"][name]) for name, x in drawn.items()]

    def expected(self) -> list[torch.Tensor]:
        """Output and last state."""
        if self.recurrence is rotation:
            return rotation_in_time_order(*self.inputs())
        return in_time_order(self.recurrence, self.inputs(), False)


B, D, N = 2, 48, 16
TIMED = (B, D, LENGTH)
CASES = [
    Case(affine, {"a": TIMED, "x": TIMED}, {"dtypes": dict.fromkeys("ax", torch.float32)}, 1e-6),
    Case(
        selective,
        {"u": TIMED, "dt": TIMED, "A": (D, N), "B": (B, N, LENGTH), "C": (B, N, LENGTH), "D": (D,), "z": TIMED},
        {"dtypes": dict.fromkeys(("u", "dt", "A", "B", "C", "D", "z"), torch.bfloat16), "sizes": {"n": N}},
        4e-3,
    ),
    Case(
        rotation,
        {"x": (B, LENGTH), "lam": (N,)},
        {"dtypes": {"x": torch.float32, "lam": torch.complex64}, "sizes": {"n": N}},
        1e-5,
    ),
    Case(
        rnn,
        {"x": TIMED, "W": (D, D)},
        {"dtypes": dict.fromkeys("xW", torch.float32), "sizes": {"d": D, "e": D}, "parallel": "never"},
        1e-5,
    ),
]

ELSEWHERE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "xdsl":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import torch
import scanweaver as sw
from scanweaver.gpu_exec import toolchain

assert toolchain.look("mlir-opt") is None
file, calls, results = sys.argv[1:]
fn = sw.load(file)
torch.save([fn(*args, **options) for args, options in torch.load(calls)], results)
"""


def make(folder: Path, target: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        file = folder / f"{case.name}.swa"
        case.recurrence.compile(target, **case.request).save(file)
        print(f"{file}: {file.stat().st_size} bytes", flush=True)


def time_first(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous().mT if x.dim() > 1 and x.shape[-1] == LENGTH else x


def strided(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x], -1)[..., 0]


def calls(case: Case, device: str) -> Iterator[tuple[list[torch.Tensor], dict[str, Any]]]:
    inputs = [x.to(device) for x in case.inputs()]
    for lay in (torch.clone, time_first, strided):
        for options in ({}, {"return_last": True}, {"init": 0.5}):
            yield [lay(x) for x in inputs], options


def run_elsewhere(file: Path, given: Any, device: str) -> list[Any]:
    """What a process makes of these calls that has the file, PyTorch and us, and nothing to compile with."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.save(given, folder / "calls")
        (folder / "cache").mkdir()
        hidden = {"PATH": "", "CUDA_HOME": "", "CUDA_PATH": "", "SCANWEAVER_MLIR_OPT": "/nowhere/mlir-opt"}
        environment = os.environ | hidden | {"SCANWEAVER_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, "-c", ELSEWHERE, file, folder / "calls", folder / "results"]
        subprocess.run(command, env=environment, check=True)
        assert not list((folder / "cache").iterdir()), "it compiled"
        return torch.load(folder / "results", map_location=device)


def flat(results: Any) -> list[torch.Tensor]:
    return [x for part in results for x in flat(part)] if isinstance(results, tuple | list) else [results]


def bits(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x).contiguous().view(torch.uint8) if x.is_complex() else x.contiguous().view(torch.uint8)


def different(x: torch.Tensor, y: torch.Tensor) -> int:
    """How many bytes of two results differ."""
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    return int((bits(x) != bits(y)).sum())


def error(got: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    return max(float((g.cpu() - e).norm() / e.norm()) for g, e in zip(got, expected, strict=True))


def check(folder: Path) -> bool:
    passed = True
    print(f"{'artifact':12} {'target':7} variants  calls  results  bytes differing  error")
    for case in CASES:
        file = (folder / f"{case.name}.swa").resolve()
        target = sw.load(file).target
        device = "cpu" if target == "cpu" else "cuda"
        given = list(calls(case, device))
        with tempfile.TemporaryDirectory() as cache:
            config.cache_dir = Path(cache)
            here = case.recurrence.compile(target, **case.request)
        want = [here(*args, **options) for args, options in given]
        got = run_elsewhere(file, given, device)
        differing = sum(map(different, flat(want), flat(got)))
        with_last = [flat(result) for result, (_, options) in zip(got, given, strict=True) if "return_last" in options]
        worst = max(error(result, case.expected()) for result in with_last)
        passed &= differing == 0 and worst <= case.allowed
        counts = f"{len(here.variants):8} {len(given):6} {len(flat(got)):8} {differing:16}"
        print(f"{case.name:12} {target:7} {counts}  {worst:.1e}", flush=True)
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("folder", type=Path, metavar="DIR")
    making.add_argument("--target", default="sm_90")
    commands.add_parser("check").add_argument("folder", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.folder, arguments.target)
    else:
        sys.exit(not check(arguments.folder))


if __name__ == "__main__":
    main()
