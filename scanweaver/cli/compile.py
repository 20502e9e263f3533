"""`scanweaver compile`: an executable artifact of a recurrence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scanweaver.cli import recurrences


def main(what: str, entry: str | None, target: str, out: Path | None, request: dict[str, Any]) -> None:
    """Compiles, saves, and says what was made; raises what `Recurrence.compile` raises."""
    recurrence = recurrences.find(what, entry)
    compiled = recurrence.compile(target, **request)
    path = out or Path(f"{recurrence.name}.swa")
    compiled.save(path)
    made = f"{len(compiled.variants)} variants, {path.stat().st_size} bytes"
    click.echo(f"{path}: {recurrence.name} for {target}, {made}")
