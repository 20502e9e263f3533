"""An explanation and the text of every stage as one page, which needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from scanweaver.explain.words import Explanation

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }}
pre {{ font-size: 13px; overflow-x: auto; padding: 0.8rem; background: #8881; border-radius: 4px; }}
summary {{ cursor: pointer; padding: 0.2rem 0; }}
:root {{ color-scheme: light dark; }}
</style>
<h1>{title}</h1>
{sections}
{stages}
</html>
"""


def page(name: str, explanation: Explanation, stages: Mapping[str, Mapping[str, str]]) -> str:
    """`stages`: by target, the text of every stage."""
    return _PAGE.format(
        title=escape(name),
        sections="\n".join(map(_section, explanation.text.strip().split("\n\n"))),
        stages="\n".join(f"<h2>Stages for {escape(target)}</h2>\n{_stages(texts)}" for target, texts in stages.items()),
    )


def _section(text: str) -> str:
    title, _, body = text.partition("\n")
    return f"<h2>{escape(title)}</h2>\n<pre>{escape(body)}</pre>"


def _stages(texts: Mapping[str, str]) -> str:
    return "\n".join(
        f"<details><summary>{escape(stage)} ({len(text.splitlines())} lines)</summary>\n"
        f"<pre>{escape(text)}</pre></details>"
        for stage, text in texts.items()
    )
