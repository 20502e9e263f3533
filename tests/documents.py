"""What tests of documents share: fenced blocks, tables, and the comparison of what is shown with what is printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def fenced(text: str) -> Iterator[tuple[str, str]]:
    """Language and content of each fenced block."""
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1], match[2]


def blocks(text: str, language: str) -> list[str]:
    return [content for of, content in fenced(text) if of == language]


def table(text: str, first: str) -> list[list[str]]:
    """The rows, cell by cell, of the table whose first column has that heading; none where there is no such table."""
    rows = re.search(rf"^\| {re.escape(first)} \|.*\n\|[- |]+\|\n((?:\|.*\|\n)*)", text, re.MULTILINE)
    lines = rows[1].splitlines() if rows else []
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def pattern(shown: str) -> str:
    """Lines in order, without their indentation; `…` on a line stands for anything in it, alone for any lines."""
    lines = [line.strip() for line in shown.strip().splitlines()]
    parts = [r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + ".*\n" for line in lines]
    return "".join(parts)


def unindented(printed: str) -> str:
    """What `pattern` matches."""
    return "".join(line.strip() + "\n" for line in printed.splitlines())


def console(block: str, folder: Path) -> str:
    """What the commands of a console block, lines that begin with `$ `, print when they run in a folder."""
    printed = ""
    for line in block.splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        tool = sys.executable if program == "python" else Path(sys.executable).with_name(program)
        ran = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{line}\n{ran.stderr}"
        printed += ran.stdout
    return printed
