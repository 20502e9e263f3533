"""`scanweaver-opt --load-pass-plugin`: passes from a user's file, with options, beside ours; what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from scanweaver.cli.opt import main

MODULE = "func.func @f(%x: f32) -> f32 { return %x : f32 }\n"
RENAMING = '''
from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class RenamePass(ModulePass):
    """rewrite: func.func @f  ->  func.func @to"""

    name = "rename"
    to: str = "g"

    def apply(self, ctx, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp):
                function.sym_name = StringAttr(self.to)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.mlir").write_text(MODULE)
    (tmp_path / "renaming.py").write_text(RENAMING)
    return tmp_path


@pytest.mark.parametrize(("passes", "name"), [("rename", "g"), ("rename{to=h}", "h"), ("cse,rename{to=h},dce", "h")])
def test_a_pass_of_a_file_runs_with_its_options(
    folder: Path, capsys: pytest.CaptureFixture[str], passes: str, name: str
) -> None:
    main(["in.mlir", "--load-pass-plugin", "renaming.py", "-p", passes])
    assert f"func.func @{name}(" in capsys.readouterr().out


def test_several_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other.py").write_text(RENAMING.replace('"rename"', '"rename-again"'))
    files = ["--load-pass-plugin", "renaming.py", "--load-pass-plugin", "other.py"]
    main(["in.mlir", *files, "-p", "rename{to=a},rename-again{to=b}"])
    assert "func.func @b(" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("none.py", None, "expected a Python file (.py), got none.py"),
        ("pass.txt", RENAMING, "expected a Python file (.py), got pass.txt"),
        ("empty.py", "from xdsl.transforms.dead_code_elimination import *", "empty.py defines no pass"),
        ("taken.py", RENAMING.replace('"rename"', '"cse"'), "taken.py defines cse, a pass that is there already"),
        (
            "twice.py",
            RENAMING.replace('"rename"', '"lower-sweeps"'),
            "twice.py defines lower-sweeps, a pass that is there already",
        ),
    ],
)
def test_what_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, text: str | None, message: str
) -> None:
    if text is not None:
        (folder / file).write_text(text)
    with pytest.raises(SystemExit) as exit_:
        main(["in.mlir", "--load-pass-plugin", file])
    assert exit_.value.code == 2
    assert f"argument --load-pass-plugin: {message}" in capsys.readouterr().err


def test_an_error_in_the_file_is_shown_where_it_is(folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        main(["in.mlir", "--load-pass-plugin", "broken.py"])
