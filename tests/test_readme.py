"""The README: its code runs and computes what it says, its commands work, its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from documents import ROOT, blocks

import scanweaver as sw
from scanweaver.cli.main import cli
from scanweaver.demo.series import garch

README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the README's code defines, one block after the other, as a reader would run it."""
    path = tmp_path_factory.mktemp("readme") / "readme.py"
    path.write_text("\n".join(blocks(README, "python")))
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    with chdir(path.parent):
        exec(compile(path.read_text(), path, "exec"), names)
    return names


def test_the_code_computes_the_recurrence(ran: dict[str, Any]) -> None:
    u, dt, A, B, C = (ran[name].double() for name in ("u", "dt", "A", "B", "C"))
    h = torch.zeros(u.shape[0], u.shape[1], A.shape[1], dtype=torch.float64)
    expected: list[torch.Tensor] = []
    for t in range(u.shape[-1]):
        h = torch.exp(dt[..., t, None] * A) * h + dt[..., t, None] * B[:, None, :, t] * u[..., t, None]
        expected.append((C[:, None, :, t] * h).sum(-1))
    y = ran["selective_scan"](ran["u"], ran["dt"], ran["A"], ran["B"], ran["C"])
    torch.testing.assert_close(y, torch.stack(expected, -1).float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ran["last"], h.float(), rtol=1e-5, atol=1e-5)


def test_the_code_prints_the_stages_and_saves_a_file(
    ran: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(blocks(README, "python")[-1], ran)
    out = capsys.readouterr().out
    assert 'scan.component "affine"' in out
    assert ".target sm_90" in out
    torch.testing.assert_close(ran["y"], ran["selective_scan"](ran["u"], ran["dt"], ran["A"], ran["B"], ran["C"]))


def test_the_commands_on_the_demos_files_work(tmp_path: Path) -> None:
    r: Any = torch.randn(50, dtype=torch.float64)
    for target, stage in (("cpu", "recurrence"), ("sm_90", "gpu")):
        folder = tmp_path / "demo_out" / "garch" / target
        folder.mkdir(parents=True)
        artifact = garch.artifact_for(target, r, 0.1, 0.1, 0.8, init=(1.0, 1.0))
        (folder / f"{stage}.mlir").write_text(artifact.stages[stage])
    commands = [line for line in "".join(blocks(README, "sh")).splitlines() if line.startswith("scanweaver-opt ")]
    outputs = [
        subprocess.run([BIN / tool, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for tool, *arguments in map(shlex.split, commands)
    ]
    assert len(outputs) == 2
    assert "#scan.schedule<" in outputs[0]
    assert ".visible .entry garch" in outputs[1]


def test_every_link_leads_somewhere() -> None:
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if not target.startswith("https://")]
    assert len(targets) >= 5
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_environment_variable_is_one_that_we_read() -> None:
    named = set(re.findall(r"`(SCANWEAVER_\w+)`", README))
    source = (ROOT / "scanweaver" / "config.py").read_text()
    assert named == set(re.findall(r"SCANWEAVER_[A-Z_]+", source))


def test_every_command_and_make_target_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    listed = re.findall(r"^\| `scanweaver (\w+)", README, re.MULTILINE)
    built = [name for name, command in cli.commands.items() if "Not built yet" not in (command.help or "")]
    assert sorted(listed) == sorted(built)
    environment = os.environ | {"COLUMNS": "200"}
    for command in listed:
        ran = subprocess.run([BIN / "scanweaver", command, "--help"], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, command


@pytest.mark.parametrize("name", ["from_stablehlo", "from_torch"])
def test_what_is_said_not_to_be_there_says_so(name: str) -> None:
    with pytest.raises(sw.UnsupportedError):
        getattr(sw, name)


def test_what_is_refused_says_what_to_do(ran: dict[str, Any]) -> None:
    inputs = [ran[name] for name in ("u", "dt", "A", "B", "C")]
    with pytest.raises(sw.UnsupportedError, match=r"torch\.no_grad"):
        ran["selective_scan"](inputs[0].clone().requires_grad_(), *inputs[1:])
    with pytest.raises(sw.UnsupportedError, match="cu_seqlens= is not built yet"):
        ran["selective_scan"](*inputs, cu_seqlens=torch.tensor([0, 5]))
