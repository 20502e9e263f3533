"""The CPU: selective scan and affine scan against PyTorch loops, and what calls cost the host.

    python bench/cpu.py [--out bench/results/cpu.json]

Run it on an idle machine. A loop's time is the better of PyTorch's own number of threads and one; ours is a median.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import provenance
import torch
import torch.nn.functional as F
from baselines.sequential import pytorch_loop
from spine import affine, affine_reference, error, selective_reference, selective_scan

import scanweaver as sw
from scanweaver.config import config

SELECTIVE = [(1, 64, 1024), (1, 256, 512), (1, 1536, 1024)]
AFFINE = [(64, 4096), (4096, 4096)]


def seconds(call: Callable[[], Any], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def loop_seconds(call: Callable[[], Any], repeats: int = 3) -> float:
    threads = torch.get_num_threads()
    found = []
    for count in {1, threads}:
        torch.set_num_threads(count)
        found.append(seconds(call, repeats))
    torch.set_num_threads(threads)
    return min(found)


def selective_loop(u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> torch.Tensor:
    dt = F.softplus(dt)
    h = torch.zeros(*u.shape[:2], A.shape[1])
    steps = []
    for t in range(u.shape[2]):
        h = torch.exp(dt[:, :, t, None] * A) * h + (dt[:, :, t] * u[:, :, t])[:, :, None] * B[:, None, :, t]
        steps.append((h * C[:, None, :, t]).sum(-1))
    return (torch.stack(steps, 2) + D[:, None] * u) * F.silu(z)


def selective_row(b: int, d: int, t: int, n: int = 16) -> dict[str, Any]:
    u, dt, z = (torch.randn(b, d, t) for _ in range(3))
    inputs = (u, dt - 2, -torch.rand(d, n) - 0.1, torch.randn(b, n, t), torch.randn(b, n, t), torch.randn(d), z)
    wrong = error(selective_scan(*inputs), selective_reference(*inputs))
    assert wrong < 1e-6, wrong
    ours, loop = seconds(lambda: selective_scan(*inputs), 30), loop_seconds(lambda: selective_loop(*inputs))
    return row("selective", {"b": b, "d": d, "t": t, "n": n}, wrong, ours, loop, ours * 1e9 / (b * d * t * n))


def affine_row(rows: int, steps: int) -> dict[str, Any]:
    a, b = torch.rand(rows, steps), torch.randn(rows, steps)
    wrong = error(affine(a, b), affine_reference(a, b))
    assert wrong < 1e-6, wrong
    ours, loop = seconds(lambda: affine(a, b), 30), loop_seconds(lambda: pytorch_loop(a, b))
    return row("affine", {"rows": rows, "t": steps}, wrong, ours, loop, ours * 1e9 / (rows * steps))


def row(suite: str, shape: dict[str, int], wrong: float, ours: float, loop: float, each: float) -> dict[str, Any]:
    return {
        "suite": suite,
        **shape,
        "error": wrong,
        "ms": ours * 1e3,
        "loop ms": loop * 1e3,
        "times faster": loop / ours,
        "ns a state and step": each,
    }


def host_costs() -> dict[str, float]:
    """Milliseconds: cold compile, from disk, import, scanweaver-opt --help; microseconds: a warm call."""
    u, dt, z = (torch.randn(1, 16, 8) for _ in range(3))
    inputs = (u, dt, -torch.rand(16, 16), torch.randn(1, 16, 8), torch.randn(1, 16, 8), torch.randn(16), z)
    sw.affine_scan(u, dt)  # imports are not the compilation's
    config.cache_dir = Path(tempfile.mkdtemp())

    def first_call() -> float:
        fresh = sw.recurrence(selective_scan.signature.text)(selective_scan.__wrapped__)
        begin = time.perf_counter()
        fresh(*inputs)
        return (time.perf_counter() - begin) * 1e3

    cold, *from_disk = (first_call() for _ in range(6))
    tiny = [value[..., :1] for value in inputs]
    tiny[2], tiny[5] = inputs[2], inputs[5]
    warm = seconds(lambda: selective_scan(*tiny), 2000) * 1e6
    starts = {
        "import scanweaver": [sys.executable, "-c", "import scanweaver"],
        "python": [sys.executable, "-c", "pass"],
        "scanweaver-opt --help": ["scanweaver-opt", "--help"],
    }
    times = {
        name: seconds(lambda c=c: subprocess.run(c, check=True, capture_output=True), 7) for name, c in starts.items()
    }
    return {
        "cold compile ms": cold,
        "from disk ms": statistics.median(from_disk),
        "warm call us": warm,
        "import scanweaver ms": (times["import scanweaver"] - times["python"]) * 1e3,
        "scanweaver-opt --help ms": times["scanweaver-opt --help"] * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    rows = [*(selective_row(*shape) for shape in SELECTIVE), *(affine_row(*shape) for shape in AFFINE)]
    costs = host_costs()
    for each in (*rows, costs):
        print({key: round(value, 9) if isinstance(value, float) else value for key, value in each.items()}, flush=True)
    if out is not None:
        provenance.write(out, {"rows": rows, "host": costs})


if __name__ == "__main__":
    main()
