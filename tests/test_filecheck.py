"""The FileCheck suite: every .mlir file under tests/filecheck is one test, run by lit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "filecheck"
FILES = sorted(path for path in ROOT.rglob("*.mlir") if "Inputs" not in path.parts)

LIT_KEYWORDS = {"RUN", "REQUIRES", "UNSUPPORTED", "XFAIL", "DEFINE", "REDEFINE", "END"}
SUFFIXES = {"", "-NEXT", "-SAME", "-DAG", "-NOT", "-LABEL", "-EMPTY"}


def misspelt_directives(text: str) -> list[str]:
    """Comments that look like a directive and are none: filecheck passes over them without a word."""
    calls = re.findall(r"\| filecheck\b(?:.*?--check-prefix[= ](\S+))?", text)
    prefixes = {prefix or "CHECK" for prefix in calls}
    known = LIT_KEYWORDS | {prefix + suffix for prefix in prefixes for suffix in SUFFIXES}
    words = re.findall(r"^\s*//\s*([A-Z][A-Z0-9_-]*)\s*:", text, re.MULTILINE)
    counted = {f"{prefix}-COUNT-{n}" for prefix in prefixes for n in range(1, 1000)}
    return [word for word in words if word not in known | counted]


def run_lit(path: Path, out: Path) -> subprocess.CompletedProcess[str]:
    lit = Path(sys.executable).with_name("lit")
    command = [str(lit), "-v", "--show-unsupported", "--skip-test-time-recording", str(path)]
    env = os.environ | {"SCANWEAVER_LIT_OUT": str(out)}  # one folder a test: workers run side by side
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_filecheck(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    assert misspelt_directives(text) == []
    ran = run_lit(path, tmp_path)
    if re.search(r"^UNSUPPORTED: ", ran.stdout, re.MULTILINE):
        pytest.skip(" ".join(re.findall(r"REQUIRES:.*|UNSUPPORTED:.*", text)))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("// RUN: x | filecheck %s\n// CHECK: a\n// CHECK-NEXT: b\n// CHECK-COUNT-3: c", []),
        ("// RUN: x | filecheck %s\n// CHEKC: a", ["CHEKC"]),
        ("// RUN: x | filecheck %s\n// CHECK-NXT: a", ["CHECK-NXT"]),
        ("// RUN: x | filecheck %s --check-prefix PTX\n// PTX: a\n// CHECK: b", ["CHECK"]),
    ],
)
def test_a_misspelt_directive_is_told(text: str, wrong: list[str]) -> None:
    assert misspelt_directives(text) == wrong


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    """The road from a wrong CHECK line to a red test."""
    (tmp_path / "lit.cfg.py").write_text((ROOT / "lit.cfg.py").read_text())
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text("// RUN: scanweaver-opt %s | filecheck %s\n// CHECK: func.func @g\nfunc.func @f() { return }\n")
    ran = run_lit(wrong, tmp_path / "out")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "FAIL: ScanWeaver :: wrong.mlir" in ran.stdout
    assert "func.func @g" in ran.stdout
