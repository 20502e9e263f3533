"""`scanweaver compile` and `scanweaver explain`: files and functions, options, what they print and exit with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import scanweaver as sw

SCANWEAVER = Path(sys.executable).parent / "scanweaver"

STEPS = """
import scanweaver as sw

@sw.recurrence("h[b d n]; u[b d t], A[d n], g[], D[d] -> y[b d t]")
def scan(h, u, A, g=0.5, D=None, *, softly=False, by=1):
    h = sw.exp(A) * h + (sw.softplus(u) if softly else u)
    y = by * g * sw.sum(h, "n")
    return h, y if D is None else y + D * u

@sw.recurrence("h[...]; x[... t]")
def squares(h, x):
    return h * h + x

not_one = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("steps")
    (made / "mysteps.py").write_text(STEPS)
    (made / "broken.py").write_text("import a_module_that_is_not_there\n")
    (made / "binary.mlir").write_bytes(b"\x7fELF\xd0\xff")
    (made / "other.swa").write_bytes(b"")
    return made


def run(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCANWEAVER, *args], cwd=folder, env=os.environ | env, capture_output=True, text=True, check=False
    )


def test_a_function_becomes_a_file_that_loads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--dtype", "u=float32", "--dtype", "A=float32", "--dtype", "D=float32", "--size", "n=4"]
    constants = ["--set", "softly=true", "--set", "by=2.5"]
    ran = run(folder, "compile", "mysteps:scan", "--target", "cpu", *options, *constants, "-o", "out.swa")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.fullmatch(r"out\.swa: scan for cpu, \d+ variants, \d+ bytes\n", ran.stdout)
    monkeypatch.syspath_prepend(folder)
    from mysteps import scan  # type: ignore[import-not-found]

    u, A, D = torch.randn(2, 20, 9), -torch.rand(20, 4), torch.rand(20)
    got = sw.load(folder / "out.swa")(u, A, D=D)
    torch.testing.assert_close(got, scan(u, A, D=D, softly=True, by=2.5), rtol=1e-6, atol=1e-6)


def test_one_dtype_for_all_a_chip_and_a_name_by_default(folder: Path) -> None:
    options = ["--dtype", "bfloat16", "--size", "n=2", "--strategy", "serial", "--reverse", "--parallel", "never"]
    ran = run(folder, "compile", "mysteps:scan", "--target", "sm_90", *options)
    assert (ran.returncode, ran.stderr) == (0, "")
    art = sw.load(folder / "scan.swa")
    assert art.target == "sm_90"
    assert "reverse" in art.ir("recurrence")
    assert [given.dtype for given in art.contract.inputs] == ["bf16", "bf16", "f32"]


def test_mlir_goes_in_and_its_entry_is_named(folder: Path) -> None:
    text = run(folder, "explain", "mysteps:squares", "--target", "cpu", "--remarks=json")
    assert text.returncode == 0
    monkey = subprocess.run(
        [sys.executable, "-c", "import mysteps; print(mysteps.scan.ir('recurrence', 'cpu'))"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "scan.mlir").write_text(monkey.stdout)
    ran = run(folder, "compile", "scan.mlir", "--target", "cpu", "--entry", "scan", "-o", "from_text.swa")
    assert (ran.returncode, ran.stderr) == (0, "")
    explained = run(folder, "explain", "scan.mlir", "--target", "cpu")
    assert "h: affine" in explained.stdout
    assert "v1 = " in explained.stdout or "y = " in explained.stdout
    missing = run(folder, "explain", "scan.mlir", "--entry", "scat")
    assert missing.returncode == 1
    assert "entry='scat': the module has no such function; it has scan" in missing.stderr


def test_explain_as_text_html_and_json(folder: Path) -> None:
    text = run(folder, "explain", "mysteps:squares", "--target", "sm_90", "--leading", "2")
    assert (text.returncode, text.stderr) == (0, "")
    assert "not proved associative" in text.stdout
    assert "h * h" in text.stdout

    page = run(folder, "explain", "mysteps:squares", "--target", "sm_90", "--html", "-o", "page.html")
    assert (page.returncode, page.stdout, page.stderr) == (0, "", "")
    html = (folder / "page.html").read_text()
    assert html.startswith("<!doctype html>")
    for stage in ("recurrence", "scan", "scheduled", "gpu", "nvvm", "ptx"):
        assert re.search(rf"<summary>{stage} \(\d+ lines\)</summary>\n<pre>", html), stage
    assert "&lt;" in html
    assert "<?x" not in html, "texts are escaped"
    assert "http" not in html.replace("http-equiv", ""), "it needs nothing else"

    remarks = run(folder, "explain", "mysteps:squares", "--remarks=json", "--target", "sm_90")
    found = json.loads(remarks.stdout)
    assert {remark["kind"] for remark in found} == {"proof", "placement", "schedule", "kernel"}
    assert found[0]["proved"] is False
    assert "mysteps.py:" in found[0]["why"]


def test_a_saved_artifact_is_explained_where_no_tool_is(folder: Path) -> None:
    made = run(folder, "compile", "mysteps:squares", "--target", "cpu", "--dtype", "float32", "--leading", "1")
    assert made.returncode == 0
    assert "squares: runs in time order" in made.stderr, "the remark"
    nothing = {"SCANWEAVER_MLIR_OPT": "/nowhere", "PATH": ""}
    text = run(folder, "explain", "squares.swa", **nothing)
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout == sw.load(folder / "squares.swa").explain()
    assert "Variants, in the order in which a call is offered to them" in text.stdout
    assert json.loads(run(folder, "explain", "squares.swa", "--remarks=json").stdout)[0]["kind"] == "proof"
    assert "<summary>cpu (" in run(folder, "explain", "squares.swa", "--html").stdout


@pytest.mark.parametrize(
    ("message", "args"),
    [
        ("nothing.mlir: no such file", ["compile", "nothing.mlir", "--target", "cpu"]),
        ("nothing.swa: no such file", ["explain", "nothing.swa"]),
        ("'mysteps': expected FILE.mlir or module:function", ["explain", "mysteps"]),
        ("module 'yoursteps' was not found from ", ["explain", "yoursteps:scan"]),
        ("mysteps:scam is not there; the recurrences of mysteps are scan, squares", ["explain", "mysteps:scam"]),
        ("mysteps:not_one is no recurrence; the recurrences of mysteps are scan", ["explain", "mysteps:not_one"]),
        ("--entry names a function of a FILE.mlir", ["explain", "mysteps:scan", "--entry", "scan"]),
        ("--dtype: 'float33' is no dtype", ["explain", "mysteps:scan", "--dtype", "u=float33"]),
        (
            "expected one for all inputs, or name=dtype",
            ["explain", "mysteps:scan", "--dtype", "f32", "--dtype", "u=f32"],
        ),
        ("--size: expected a number for axis n, got 'many'", ["explain", "mysteps:scan", "--size", "n=many"]),
        ("--set: expected name=value, got 'softly'", ["explain", "mysteps:scan", "--set", "softly"]),
        ("got `sofly`: did you mean `softly`?", ["explain", "mysteps:scan", "--set", "sofly=true"]),
        (
            "--set: expected a keyword-only constant of the step, got sizes",
            ["explain", "mysteps:scan", "--set", "sizes=3"],
        ),
        ("--size: expected a number for axis n", ["explain", "mysteps:scan", "--size", "n=\u0663"]),
        ("has more bytes than 64 bits count", ["explain", "mysteps:scan", "--size", f"n={2**62}"]),
        ("leading of squares: expected 0 to 64 axes", ["explain", "mysteps:squares", "--leading", "-1"]),
        ("':scan': expected FILE.mlir or module:function", ["explain", ":scan"]),
        ("'.mysteps:scan': expected FILE.mlir or", ["explain", ".mysteps:scan"]),
        ("binary.mlir is not UTF-8 text", ["explain", "binary.mlir"]),
        ("other.swa: the checksum", ["explain", "other.swa"]),
        ("target 'sm_91' is not known", ["explain", "mysteps:scan", "--target", "sm_91"]),
        ("expected the dtype of input `u`", ["compile", "mysteps:scan", "--target", "cpu"]),
    ],
)
def test_what_is_wrong_is_said_and_exits_1(folder: Path, message: str, args: list[str]) -> None:
    ran = run(folder, *args)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("scanweaver: error: ")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_wrong_usage_exits_2(folder: Path) -> None:
    for args in (["compile", "mysteps:scan"], ["explain"], ["explain", "mysteps:scan", "--html", "--remarks=json"]):
        ran = run(folder, *args)
        assert ran.returncode == 2, args
        assert "Usage: scanweaver" in ran.stderr


@pytest.mark.parametrize("command", ["compile", "explain"])
@pytest.mark.parametrize("out", ["no/folder/out", "."])
def test_an_output_needs_its_folder(folder: Path, command: str, out: str) -> None:
    ran = run(folder, command, "mysteps:squares", "--target", "cpu", "-o", out)
    assert ran.returncode == 2 and "Invalid value for '-o' / '--out'" in ran.stderr


def test_a_module_that_does_not_import_shows_its_own_error(folder: Path) -> None:
    ran = run(folder, "explain", "broken:scan")
    assert ran.returncode == 1
    assert "ModuleNotFoundError: No module named 'a_module_that_is_not_there'" in ran.stderr
