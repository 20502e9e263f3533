"""One page a pass: its example does what the page shows, and its options are the pass's."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scanweaver.transforms import get_all_passes

DOCS = Path(__file__).parents[1] / "docs" / "passes"
PAGES = sorted(DOCS.glob("*.md"))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def pattern(shown: str) -> str:
    """Lines in order, without their indentation; `…` on a line stands for anything in it, alone for any lines."""
    lines = [line.strip() for line in shown.strip().splitlines()]
    parts = [r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + ".*\n" for line in lines]
    return "".join(parts)


def run_example(text: str, folder: Path) -> tuple[str, str]:
    """What the page's command prints, and what the page shows of it."""
    source, shown = blocks(text, "mlir")
    (command,) = blocks(text, "console")
    program, file, *options = shlex.split(command.removeprefix("$ "))
    assert program == "scanweaver-opt"
    (folder / file).write_text(source)
    tool = Path(sys.executable).with_name(program)
    ran = subprocess.run([tool, file, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return "".join(line.strip() + "\n" for line in ran.stdout.splitlines()), shown


def test_every_pass_has_a_page() -> None:
    assert {page.stem for page in PAGES} == set(get_all_passes())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_does_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    printed, shown = run_example(page.read_text(), tmp_path)
    assert re.search(pattern(shown), printed), printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_options_are_those_of_the_pass(page: Path) -> None:
    text = page.read_text()
    table = text.partition("| option |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert named == [field.name for field in dataclasses.fields(get_all_passes()[page.stem]()) if field.name != "name"]


def test_a_page_that_shows_something_else_fails(tmp_path: Path) -> None:
    text = (DOCS / "lower-math-for-gpu.md").read_text()
    printed, shown = run_example(text, tmp_path)
    assert not re.search(pattern(shown.replace("ex2.approx.ftz", "ex2.approx")), printed)
    assert not re.search(pattern("\n".join(reversed(shown.strip().splitlines()))), printed)
