"""`scanweaver demo`: what it prints, leaves and exits with; its block, its loops and its checks."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import scanweaver as sw
from scanweaver.cli import demo
from scanweaver.demo import jobs as jobs_module
from scanweaver.demo.figure import draw
from scanweaver.demo.inputs import sp500, text_bytes
from scanweaver.demo.jobs import JOBS, Job, jobs
from scanweaver.demo.mamba_block import MambaBlock
from scanweaver.demo.measure import Result, measure
from scanweaver.demo.report import Report, duration
from scanweaver.demo.series import weighted_mean, weighted_mean_loop
from scanweaver.demo.stages import stages
from scanweaver.explain.proof import proofs

SCANWEAVER = Path(sys.executable).parent / "scanweaver"
CPU = torch.device("cpu")
TEXTS = {
    "cpu": ("recurrence.mlir", "scan.mlir", "scheduled.mlir", "cpu.mlir", "llvm.ll", "kernel.s"),
    "sm_90": ("recurrence.mlir", "scan.mlir", "scheduled.mlir", "gpu.mlir", "nvvm.mlir", "kernel.ptx"),
}


def run_demo(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCANWEAVER, "demo", *args], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One run of the real thing, from a folder that has nothing to do with ours."""
    folder = tmp_path_factory.mktemp("elsewhere")
    return run_demo("--device", "cpu", cwd=folder), folder / "demo_out"


def test_it_exits_0_and_says_nothing_on_stderr(ran: Any) -> None:
    process, _ = ran
    assert (process.returncode, process.stderr) == (0, "")


def test_it_is_plain_in_a_pipe(ran: Any) -> None:
    assert all(mark not in ran[0].stdout for mark in "│┃━\x1b\r")


def test_it_says_what_was_proved_of_every_state(ran: Any) -> None:
    found = re.findall(r"^proved: (\w+): (\w+) ", ran[0].stdout, re.MULTILINE)
    assert found == [
        ("h", "affine"),
        ("total", "affine"),
        ("weight", "affine"),
        ("shock", "delay"),
        ("variance", "affine"),
    ]


def test_it_shows_every_stage_with_lines_and_milliseconds(ran: Any) -> None:
    process, out = ran
    for name in ("recurrence", "scan", "scheduled", "cpu", "llvm", "asm", "gpu", "nvvm"):
        rows = re.findall(rf"^  {name} .* (\d+) lines +(\d+\.\d)$", process.stdout, re.MULTILINE)
        targets = 2 if name in ("recurrence", "scan", "scheduled") else 1
        assert len(rows) == len(JOBS) * targets, name
    (lines,) = {int(n) for n in re.findall(r"^  asm .* (\d+) lines", process.stdout, re.MULTILINE)[:1]}
    assert lines == len((out / "selective_scan/cpu/kernel.s").read_text().splitlines())


def test_every_result_holds_and_beats_the_loop(ran: Any) -> None:
    _, _, table = ran[0].stdout.partition("\nResults\n")
    rows = re.findall(r"^  (\w+) +CPU.* (\d+) x +(\S+) < (\S+)$", table, re.MULTILINE)
    assert [name for name, *_ in rows] == list(JOBS)
    for _, speedup, error, allowed in rows:
        assert int(speedup) > 3
        assert 0 <= float(error) < float(allowed) <= 1e-6


def test_it_agrees_with_pandas_and_arch(ran: Any) -> None:
    found = dict(re.findall(r"CPU.*: (\S+) from (pandas ewm|arch),", ran[0].stdout))
    assert sorted(found.values()) == ["arch", "pandas ewm"]
    assert all(float(error) < 1e-12 for error in found)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("target", TEXTS)
def test_it_leaves_the_text_of_every_stage(ran: Any, job: str, target: str) -> None:
    folder = ran[1] / job / target
    for name in TEXTS[target]:
        assert (folder / name).stat().st_size > 0, name
    assert "recurrence.generic" in (folder / "recurrence.mlir").read_text()
    assert "scan.generic" in (folder / "scan.mlir").read_text()
    assert "#scan.schedule<" in (folder / "scheduled.mlir").read_text()


@pytest.mark.parametrize("job", JOBS)
def test_the_ptx_is_for_sm_90_and_has_the_kernel(ran: Any, job: str) -> None:
    ptx = (ran[1] / job / "sm_90" / "kernel.ptx").read_text()
    assert ".target sm_90" in ptx
    assert ".visible .entry" in ptx


def test_the_stages_can_be_read_again(ran: Any) -> None:
    command = [
        SCANWEAVER.parent / "scanweaver-opt",
        "-p",
        "regroup-products,fuse-multiply-add,convert-recurrence-to-scan",
    ]
    folder = ran[1] / "garch" / "cpu"
    again = subprocess.run([*command, folder / "recurrence.mlir"], capture_output=True, text=True, check=True)
    assert again.stdout.split() == (folder / "scan.mlir").read_text().split()


def test_the_picture_is_a_png_of_a_readable_size(ran: Any) -> None:
    data = (ran[1] / "demo.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert 900 <= width <= 1400
    assert 700 <= height <= 1400
    assert len(data) < 400_000


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    process = run_demo("--device", "cuda", cwd=tmp_path)
    assert process.returncode == 1
    assert process.stderr.startswith("scanweaver: error: --device cuda: ")
    assert not (tmp_path / "demo_out").exists()


@pytest.mark.gpu
@pytest.mark.host_tools
@pytest.mark.commands
def test_it_runs_on_both_devices(tmp_path: Path) -> None:
    process = run_demo("--out", "here", cwd=tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    for job in JOBS:
        rows = re.findall(rf"^  {job} +(CPU|NVIDIA).* < \S+$", process.stdout, re.MULTILINE)
        assert sorted(rows) == ["CPU", "NVIDIA"]
    assert (tmp_path / "here" / "demo.png").exists()


def test_what_is_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "arch" else object())
    with pytest.raises(sw.ScanWeaverError, match=r'the demo needs arch: pip install "scanweaver\[demo\]"'):
        demo.main(tmp_path / "out")


# Its parts


@pytest.fixture(scope="module")
def mean_job() -> Job:
    return next(job for job in jobs(CPU, sp500()) if job.name == "weighted_mean")


@pytest.fixture(scope="module")
def mean_result(mean_job: Job) -> Result:
    return measure(mean_job, CPU, lambda what: None)


def test_a_wrong_result_fails(monkeypatch: pytest.MonkeyPatch, mean_job: Job, tmp_path: Path) -> None:
    """The check is real: a loop that computes something else makes the demo exit 1."""
    off = replace(mean_job, loop=lambda dtype: mean_job.loop(dtype) * (1 + 1e-9))
    assert not measure(off, CPU, lambda what: None).holds
    monkeypatch.setattr(jobs_module, "jobs", lambda device, prices: [off])
    monkeypatch.setattr("scanweaver.demo.figure.draw", lambda *args: None)
    assert demo.main(tmp_path, "cpu") == 1


def test_nan_does_not_hold(mean_result: Result) -> None:
    assert mean_result.holds
    assert not replace(mean_result, error=float("nan")).holds


def test_a_loop_that_is_itself_off_allows_twice_its_error(mean_job: Job) -> None:
    x, alpha = (value.float() for value in mean_job.args)
    rough = replace(
        mean_job,
        args=(x, alpha),
        run=lambda: weighted_mean(x, alpha),
        loop=lambda dtype: weighted_mean_loop(x.to(dtype), alpha.to(dtype)),
        peer=None,
    )
    result = measure(rough, CPU, lambda what: None)
    assert result.loop_error > 1e-6  # a span of 200 days in float32
    assert result.allowed == 2 * result.loop_error
    assert result.holds


def test_the_loop_is_what_pandas_computes() -> None:
    x = sp500().close[:300]
    mean = weighted_mean_loop(x, torch.tensor([2 / 11], dtype=torch.float64))
    expected: Any = pd.Series(x.numpy()).ewm(span=10).mean().to_numpy()
    torch.testing.assert_close(mean[0], torch.tensor(expected), rtol=1e-13, atol=0)


def test_the_text_is_text() -> None:
    (text,) = text_bytes(2048).tolist()
    assert len(text) == 2048
    assert "Compound statements contain (groups of) other statements" in bytes(text).decode()


def test_the_block_is_initialised_as_mamba_is() -> None:
    torch.manual_seed(1)
    block = MambaBlock()
    inputs = block.scan_inputs(text_bytes(40))
    assert inputs.u.shape == inputs.delta.shape == inputs.z.shape == (1, 1536, 40)
    assert inputs.B.shape == inputs.C.shape == (1, 16, 40)
    torch.testing.assert_close(inputs.A, -torch.arange(1.0, 17).expand(1536, 16))
    assert inputs.D.eq(1).all()
    dt = torch.nn.functional.softplus(inputs.delta_bias)
    assert 0.001 <= dt.min() < 0.0011 < 0.09 < dt.max() <= 0.1001
    assert all(x.stride(-1) == 1 for x in (inputs.u, inputs.delta, inputs.B, inputs.C, inputs.z))


def test_the_block_is_causal() -> None:
    tokens = text_bytes(64)
    block = MambaBlock(d_model=32)
    whole, start = block.scan_inputs(tokens), block.scan_inputs(tokens[:, :40])
    for name in ("u", "delta", "B", "C", "z"):
        torch.testing.assert_close(getattr(whole, name)[..., :40], getattr(start, name))


def test_the_reason_of_a_refused_state_is_told(capsys: pytest.CaptureFixture[str], mean_result: Result) -> None:
    @sw.recurrence("h[], g[]; x[t]")
    def squash(h: Any, g: Any, x: Any) -> Any:
        return sw.tanh(h + x), g + h

    artifact = squash.artifact(torch.randn(9))
    first, second = proofs(artifact.stages["scan"])
    assert (first.states, first.algebra) == (("h",), "sequential")
    assert "math.tanh is not affine in state 'h' (test_demo.py:" in first.why
    assert (second.states, second.algebra) == (("g",), "affine")
    Report().job(replace(mean_result, artifact=artifact), [])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" (")[0] for line in lines if "proved" in line] == [
        "not proved: h: sequential",
        "proved: g: affine",
    ]


def test_no_call_of_a_tool_is_counted_twice(mean_result: Result) -> None:
    artifact = mean_result.artifact
    told = [stage.milliseconds for stage in stages(artifact) if stage.milliseconds is not None]
    assert sum(told) == pytest.approx(sum(artifact.milliseconds.values()))


def test_a_job_on_two_devices_is_drawn_as_two(tmp_path: Path, mean_result: Result) -> None:
    prices = sp500()
    variance = replace(
        mean_result, job=replace(mean_result.job, name="garch"), output=torch.ones(len(prices.close) - 1)
    )
    draw(tmp_path / "one.png", prices, [mean_result, variance])
    draw(
        tmp_path / "two.png",
        prices,
        [mean_result, variance, *(replace(r, device="GPU") for r in (mean_result, variance))],
    )
    heights = [struct.unpack(">I", (tmp_path / f"{name}.png").read_bytes()[20:24])[0] for name in ("one", "two")]
    assert heights[1] > heights[0] + 100


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0.0154, "15.4 µs"), (1.0, "1 ms"), (999.0, "999 ms"), (8360, "8.36 s")]
)
def test_durations_have_the_unit_that_suits_them(milliseconds: float, text: str) -> None:
    assert duration(milliseconds) == text
