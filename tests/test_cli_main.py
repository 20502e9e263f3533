"""`scanweaver`: what each command prints and how it exits."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from scanweaver.cli import doctor

BIN = Path(sys.executable).parent


def run_scanweaver(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "scanweaver"), *args]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=False)


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    ran = run_scanweaver("--help")
    assert ran.returncode == 0
    for command in ("demo", "compile", "explain", "bench", "tune", "doctor"):
        assert f"  {command} " in ran.stdout
    code = (
        "import sys; from scanweaver.cli.main import cli\\n"
        "cli(['--help'], standalone_mode=False)\\n"
        "print([m for m in ('torch', 'xdsl', 'numpy', 'rich') if m in sys.modules])"
    ).replace("\\n", "\n")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["bench", "tune"])
def test_a_command_that_is_not_built_says_so(command: str) -> None:
    ran = run_scanweaver(command, "some.mlir", "--target", "sm_90")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr == f"scanweaver: {command} is not built yet\n"


def test_an_unknown_command_is_wrong_usage() -> None:
    ran = run_scanweaver("dmeo")
    assert ran.returncode == 2
    assert "No such command 'dmeo'" in ran.stderr


def test_doctor_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "kernel").write_bytes(bytes(2**20))
    ran = run_scanweaver("doctor", SCANWEAVER_CACHE_DIR=str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = dict(line.split(": ", 1) for line in ran.stdout.splitlines())
    number, _, python = found["Python"].rstrip(")").partition(" (")
    assert number == sys.version.split()[0]
    assert Path(python).resolve() == Path(sys.executable).resolve()
    assert found["torch"] == torch.__version__
    assert found["xdsl"].startswith("0.75.")
    for tool in ("mlir-opt", "mlir-translate", "opt", "llc"):
        assert found[tool].startswith("22.")
    assert "cc" in found
    assert found["cache"] == f"1 files, 1.0 MiB ({tmp_path})"
    assert all(mark not in ran.stdout for mark in "│┃\x1b"), "plain when piped"


def test_doctor_exits_1_with_what_is_missing(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "mlir-opt", "not there"), (tmp_path, "no program")):
        ran = run_scanweaver("doctor", SCANWEAVER_MLIR_OPT=str(path))
        assert ran.returncode == 1
        assert "mlir-opt: not usable" in ran.stdout
        (remedy,) = ran.stdout.partition("\nMissing:\n")[2].splitlines()
        assert f"SCANWEAVER_MLIR_OPT names {path}, which is {what}" in remedy
        assert 'pip install "scanweaver[mlir]"' in remedy


def test_doctor_holds_versions_to_what_the_distribution_asks_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["xdsl<0.76,>=0.75", "torch>=2.11", "rich<16", "none-such>=1", "numpy<1; extra == 'cuda'"]
    versions = {"scanweaver": "0.1.0", "xdsl": "0.74.1", "torch": "2.11.0+cpu", "rich": "15.1"}

    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor, "requires", lambda _: asked)
    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(doctor, "_cuda", lambda: iter(()))
    assert doctor.main() == 1
    found, _, missing = capsys.readouterr().out.partition("\nMissing:\n")
    assert "xdsl: 0.74.1, not <0.76,>=0.75\n" in found
    assert "torch: 2.11.0+cpu\n" in found
    assert missing.splitlines() == [
        "  xdsl: pip install 'xdsl<0.76,>=0.75'",
        "  none-such: pip install 'none-such>=1'",
    ]


def test_doctor_in_a_tree_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", nothing)
    monkeypatch.setattr(doctor, "version", nothing)
    monkeypatch.setattr(doctor, "_cuda", lambda: iter(()))
    assert doctor.main() == 1
    assert "\nMissing:\n  scanweaver: pip install 'scanweaver'\n" in capsys.readouterr().out


def test_doctor_exits_1_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a_file").touch()
    ran = run_scanweaver("doctor", SCANWEAVER_CACHE_DIR=str(tmp_path / "a_file" / "cache"))
    assert ran.returncode == 1
    (remedy,) = ran.stdout.partition("\nMissing:\n")[2].splitlines()
    assert remedy.startswith(f"  cache: cannot write to {tmp_path / 'a_file'}")
    assert "SCANWEAVER_CACHE_DIR" in remedy
