"""Counts bank conflicts in workgroup memory by the hardware's counters: Blelloch's sweeps beside shuffles.

    python bench/bank_conflicts.py [--out bench/results/bank_conflicts.json]

Runs itself once under Nsight Compute (`ncu`, which must be on PATH) and prints, for each kernel, the instructions that
read and write workgroup memory, the wavefronts they took (1 each is the least for 32-bit values, 2 for 64-bit ones) and
the conflicts among them.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import provenance
import torch

import scanweaver as sw

COUNTERS = {
    "smsp__inst_executed_op_shared_ld.sum": "loads",
    "smsp__inst_executed_op_shared_st.sum": "stores",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "load wavefronts",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "store wavefronts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "load conflicts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "store conflicts",
}
SHAPES = [(1, 1024), (132, 1024), (132, 4096)]
DTYPES = [torch.float32, torch.float64, torch.complex64]
CASES = [
    (strategy, dtype, channels, shape)
    for dtype, shape, channels, strategy in itertools.product(DTYPES, SHAPES, (False, True), ("blelloch", "lanes"))
]


def launch(strategy: str, dtype: torch.dtype, channels: bool, shape: tuple[int, int]) -> None:
    a, b = torch.rand(shape, device="cuda").to(dtype), torch.randn(shape, device="cuda").to(dtype)
    if channels:
        a, b = a.T.contiguous().T, b.T.contiguous().T
    sw.affine_scan(a, b, strategy=strategy)
    torch.cuda.synchronize()


def counted() -> list[dict[str, str]]:
    """A dictionary of counters for each launch, in order."""
    command = ["ncu", "--csv", "--clock-control", "none", "--kernel-name", "affine_scan"]
    command += ["--metrics", ",".join(COUNTERS), sys.executable, __file__, "--launch"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{process.stdout[-2000:]}\n{process.stderr[-2000:]}")
    lines = process.stdout.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    launches: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(lines[header:]):
        launches.setdefault(row["ID"], {})[COUNTERS[row["Metric Name"]]] = row["Metric Value"]
    return list(launches.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--launch", action="store_true", help="only launch the kernels")
    arguments = parser.parse_args()
    if arguments.launch:
        for case in CASES:
            launch(*case)
        return
    rows: list[dict[str, Any]] = []
    for (strategy, dtype, channels, (lines, steps)), counters in zip(CASES, counted(), strict=True):
        numbers = {name: int(value.replace(",", "")) for name, value in counters.items()}
        layout = "channels" if channels else "steps"
        rows.append({"strategy": strategy, "dtype": str(dtype).removeprefix("torch."), "contiguous": layout,
                     "rows": lines, "steps": steps} | numbers)  # fmt: skip
        print(*rows[-1].items(), sep="  ", flush=True)
    if arguments.out is not None:
        provenance.write(arguments.out, {"rows": rows})


if __name__ == "__main__":
    main()
