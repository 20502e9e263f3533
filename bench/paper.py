"""The comparison of the ScanWeaver paper (arXiv 2606.00601) again: one affine scan, T = 1024 and 4096, on one GPU.

    python bench/paper.py [--out bench/results/paper.json] [--plot docs/img/paper.png]

h = a·h + b, float32, contiguous. Blelloch's sweeps, warp shuffles and the serial walk from our compiler, against a
PyTorch loop over time, one CUDA thread a row and, for context where it is installed, mamba_ssm's kernel with one state.
Each is checked against float64 before it is timed; times are medians of CUDA events around single warm launches. The
paper states 0.032 ms at T = 1024 for one shape, device not stated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
import provenance
from baselines import mamba
from baselines.sequential import build_cuda, pytorch_loop
from spine import affine, affine_reference, error, events_ms

SHAPES = [(rows, steps) for steps in (1024, 4096) for rows in (1, 132, 4096)]
PAPER_MS = 0.032
MAMBA = "mamba_ssm, one state"
ERRORS = {MAMBA: 1e-5}
"""The most that a contestant may be off, 1e-6 where nothing is said: mamba_ssm works with fast exponentials."""


Prepared = Callable[[], torch.Tensor]


def contestants() -> dict[str, Callable[[torch.Tensor, torch.Tensor], Prepared]]:
    """By name: what is timed, given a and b."""

    def plain(run: Callable[..., torch.Tensor], **options: Any) -> Callable[[torch.Tensor, torch.Tensor], Prepared]:
        return lambda a, b: partial(run, a, b, **options)

    found = {strategy: plain(affine, strategy=strategy) for strategy in ("blelloch", "lanes", "serial")}
    sequential = build_cuda()
    if sequential is not None:
        found["one CUDA thread a row"] = plain(sequential)
    if mamba.extension() is not None:
        found[MAMBA] = mamba.affine_scan
    found["PyTorch loop"] = plain(pytorch_loop)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    rows_of_table: list[dict[str, Any]] = []
    everyone = contestants()
    for rows, steps in SHAPES:
        a, b = torch.rand(rows, steps, device="cuda"), torch.randn(rows, steps, device="cuda")
        expected = affine_reference(a, b)
        for name, prepared in everyone.items():
            run = prepared(a, b)
            wrong = error(run(), expected)
            assert wrong < ERRORS.get(name, 1e-6), f"{name} at {rows} x {steps}: {wrong}"
            ms = events_ms([run], 3 if name == "PyTorch loop" else 50)
            row = {"rows": rows, "steps": steps, "name": name, "error": wrong, "ms": ms}
            rows_of_table.append(row)
            print(f"{rows:5d} x {steps:5d}  {name:24s} {row['ms']:9.4f} ms  error {wrong:.1e}", flush=True)
    if arguments.out is not None:
        provenance.write(arguments.out, {"paper ms at T = 1024": PAPER_MS, "rows": rows_of_table})
    if arguments.plot is not None:
        plot(rows_of_table, arguments.plot)


def plot(table: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds of every contestant at every shape, on a logarithmic scale."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["name"] for row in table))
    shapes = list(dict.fromkeys((row["rows"], row["steps"]) for row in table))
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        times = [next(r["ms"] for r in table if (r["rows"], r["steps"], r["name"]) == (*s, name)) for s in shapes]
        axes.bar([j + i * width for j in range(len(shapes))], times, width, label=name)
    axes.axhline(PAPER_MS, color="black", linestyle=":", linewidth=1)
    axes.text(-0.1, PAPER_MS * 1.1, "paper, T = 1024", fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds, warm (lower is better)")
    axes.set_xticks(
        [j + 0.4 - width / 2 for j in range(len(shapes))], [f"{r} row{'s' * (r > 1)}\nT = {t}" for r, t in shapes]
    )
    axes.set_title("One affine scan, float32, on one GPU")
    axes.legend(fontsize=8, ncols=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
