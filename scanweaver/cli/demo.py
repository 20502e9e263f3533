"""`scanweaver demo`: three recurrences on real input, start to end, on every device of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from scanweaver.errors import ScanWeaverError

if TYPE_CHECKING:
    import torch

    from scanweaver.demo.inputs import Prices
    from scanweaver.demo.measure import Result
    from scanweaver.demo.report import Report

CHIP = "sm_90"
"""Kernels are compiled for this chip too, whether there is one here or not."""


def main(out: Path, device: str = "all") -> int:
    """Runs the demo and leaves its files in `out`; returns 1 where a result is further off than allowed, else 0.

    `device`: "cpu", "cuda", or "all" for what there is. Raises ScanWeaverError where what the demo needs is not there.
    """
    _require_extra()
    from scanweaver.demo.figure import draw
    from scanweaver.demo.inputs import sp500
    from scanweaver.demo.jobs import JOBS
    from scanweaver.demo.measure import PARTS
    from scanweaver.demo.report import Report

    devices = _devices(device)
    report = Report()
    prices = sp500()
    with report.progress(len(devices) * (1 + len(JOBS) * (1 + PARTS))):
        results = [result for on in devices for result in _on_device(on, prices, out, report)]
    report.heading("Results")
    report.results(results)
    draw(out / "demo.png", prices, results)
    report.line(f"\n{out / 'demo.png'} shows it; {out} holds every stage's text and the binaries")
    return 0 if all(result.holds for result in results) else 1


def _on_device(device: torch.device, prices: Prices, out: Path, report: Report) -> Iterator[Result]:
    """Every job: compiled, proved, run and measured on one device, and compiled for CHIP."""
    from scanweaver.demo.jobs import jobs
    from scanweaver.demo.measure import measure
    from scanweaver.demo.stages import write_stages

    report.next(f"reading the input on {device}")
    for job in jobs(device, prices):
        result = measure(job, device, lambda what, name=job.name: report.next(f"{name} on {device}: {what}"))
        report.next(f"{job.name} for {CHIP}: compiling")
        artifacts = {result.artifact.target: result.artifact}
        if CHIP not in artifacts:
            artifacts[CHIP] = job.recurrence.artifact_for(CHIP, *job.args, **job.kwargs)
        report.job(result, artifacts.values())
        for target, artifact in artifacts.items():
            write_stages(artifact, out / job.name / target)
        yield result


def _devices(asked: str) -> list[torch.device]:
    import torch

    found = torch.cuda.is_available()
    if asked == "cuda" and not found:
        why = "PyTorch finds no GPU" if torch.version.cuda else f"torch {torch.__version__} is a CPU build"
        raise ScanWeaverError(f"--device cuda: {why}")
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    return {"cpu": [cpu], "cuda": [cuda], "all": [cpu, cuda] if found else [cpu]}[asked]


def _require_extra() -> None:
    missing = [name for name in ("pandas", "matplotlib", "arch") if find_spec(name) is None]
    if missing:
        raise ScanWeaverError(f'the demo needs {", ".join(missing)}: pip install "scanweaver[demo]"')
