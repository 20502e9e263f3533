"""`scanweaver explain`: the proof, the schedule and every stage of a recurrence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from scanweaver.cli import recurrences
from scanweaver.errors import ScanWeaverError


def main(
    what: str, form: str, out: Path | None, entry: str | None, target: str | None, request: dict[str, Any]
) -> None:
    """Writes the explanation as text, HTML or JSON; raises what `Recurrence.explain` raises."""
    is_file = what.endswith(".swa")
    text = _of_file(Path(what), form) if is_file else _of_recurrence(what, form, entry, target, request)
    if out is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        out.write_text(text)


def _of_recurrence(what: str, form: str, entry: str | None, target: str | None, request: dict[str, Any]) -> str:
    from scanweaver.artifacts.ahead import explained

    recurrence = recurrences.find(what, entry)
    explanation, artifacts = explained(recurrence, target, request)
    if form == "json":
        return _json(explanation.remarks)
    if form == "html":
        from scanweaver.explain.html import page

        return page(recurrence.name, explanation, {artifact.target: artifact.stages for artifact in artifacts})
    return explanation.text


def _of_file(path: Path, form: str) -> str:
    """An artifact brings its explanation along."""
    if not path.is_file():
        raise ScanWeaverError(f"{path}: no such file")
    from scanweaver.artifacts.swa import load

    compiled = load(path)
    if form == "json":
        return _json(compiled.remarks())
    if form == "html":
        from scanweaver.explain.html import page

        stages = {compiled.target: compiled.variants[0].artifact.stages}
        return page(compiled.contract.name, compiled.explanation, stages)
    return compiled.explain()


def _json(remarks: list[dict[str, Any]]) -> str:
    return json.dumps(remarks, indent=1)
