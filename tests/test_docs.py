"""The documents' code runs, in order, in an empty folder, and prints what they show; their links lead somewhere."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, console, fenced, pattern, table, unindented
from reference import FLOOR

from scanweaver.transforms import get_all_passes

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")])  # docs/passes has a test of its own
SHOWN = ("text", "mlir", "ptx")


def run_page(text: str, folder: Path) -> None:
    """Runs a page as a reader would: Python in one session, except for what `# name.py` says to put into a file.

    A block of text, MLIR or PTX is what the block before it printed, with `…` for what is left out.
    """
    session: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for i, (language, content) in enumerate(fenced(text)):
        if language == "python":
            named = re.match(r"# (\w+\.py)\n", content)
            path = folder / (named[1] if named else f"block{i}.py")
            path.write_text(content)
            if named is None:
                out = StringIO()
                with redirect_stdout(out):
                    exec(compile(content, path, "exec"), session)
                printed = out.getvalue()
        elif language == "console":
            printed = console(content, folder)
        elif language in SHOWN:
            assert re.search(pattern(content), unindented(printed)), f"shown:\n{content}\nprinted:\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_prints_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run_page(page.read_text(), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("https://")]
    assert [target for target in targets if not (page.parent / target.partition("#")[0]).exists()] == []


def test_the_architecture_names_every_room_and_every_pass() -> None:
    text = (DOCS / "architecture.md").read_text()
    rooms = {name for row in table(text, "room") for name in re.findall(r"`(\w+)`", row[0])}
    assert rooms == {path.parent.name for path in ROOT.glob("scanweaver/*/__init__.py")}
    assert {re.findall(r"`(.*?)`", row[1])[0] for row in table(text, "stage")} == set(get_all_passes())


def test_the_tests_grant_no_more_than_the_contract_says() -> None:
    rows = table((DOCS / "numerics.md").read_text(), "result")
    assert {name.strip("`"): float(granted) for name, granted in rows} == {
        str(dtype).removeprefix("torch."): floor for dtype, floor in FLOOR.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nprint(1)\nprint(2)\n```\n\n```text\n2\n1\n```\n",
        "```python\nassert False\n```\n",
        "```console\n$ scanweaver-opt no.mlir\n```\n",
    ],
)
def test_a_page_that_shows_something_else_fails(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_page(text, tmp_path)


def test_a_page_that_shows_what_is_printed_passes(tmp_path: Path) -> None:
    run_page("```python\nprint('a 1 b')\nprint(2)\nprint(3)\n```\n\n```text\na … b\n…\n3\n```\n", tmp_path)
