"""One page a pass: its example does what the page shows, and its options are the pass's."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from documents import ROOT, blocks, console, pattern, table, unindented

from scanweaver.transforms import get_all_passes

DOCS = ROOT / "docs" / "passes"
PAGES = sorted(DOCS.glob("*.md"))


def run_example(text: str, folder: Path) -> tuple[str, str]:
    """What the page's command prints, and what the page shows of it."""
    source, shown = blocks(text, "mlir")
    (command,) = blocks(text, "console")
    (folder / command.split()[2]).write_text(source)
    return unindented(console(command, folder)), shown


def test_every_pass_has_a_page() -> None:
    assert {page.stem for page in PAGES} == set(get_all_passes())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_does_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    printed, shown = run_example(page.read_text(), tmp_path)
    assert re.search(pattern(shown), printed), printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_options_are_those_of_the_pass(page: Path) -> None:
    named = [row[0].strip("`") for row in table(page.read_text(), "option") if row[0]]
    assert named == [field.name for field in dataclasses.fields(get_all_passes()[page.stem]()) if field.name != "name"]


def test_a_page_that_shows_something_else_fails(tmp_path: Path) -> None:
    text = (DOCS / "lower-math-for-gpu.md").read_text()
    printed, shown = run_example(text, tmp_path)
    assert not re.search(pattern(shown.replace("ex2.approx.ftz", "ex2.approx")), printed)
    assert not re.search(pattern("\n".join(reversed(shown.strip().splitlines()))), printed)
