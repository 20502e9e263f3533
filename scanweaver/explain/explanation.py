"""The explanation of a recurrence's artifacts: for people as text, for programs as remarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from scanweaver.dialects import scan
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.explain.placement import Level, Placed, Placement, Read
from scanweaver.explain.proof import Proved, parsed, proved
from scanweaver.explain.schedule import kernel_words, layout_words, schedule_words
from scanweaver.explain.words import Explanation
from scanweaver.gpu_exec.artifact import Artifact

WIDTH = 100


def explain(artifacts: Sequence[Artifact], signature: str, variants: Sequence[str] = ()) -> Explanation:
    """Reads the scheduled stage of artifacts of one recurrence, each for a target of its own.

    `variants`: what else was compiled, a line each.
    """
    scans = [parsed(artifact.stages["scheduled"]) for artifact in artifacts]
    proof, placement = list(proved(scans[0])), Placement(scans[0])
    placed = list(placement.placed())
    name = artifacts[0].name
    sections = [
        (f"{name}: {' '.join(signature.split())}", list(_axes(scans[0]))),
        ("What was proved", [line for each in proof for line in _proof(each)]),
        ("Where each value is computed", list(_placement(placed, placement.reads(), scans[0]))),
    ]
    for artifact, op in zip(artifacts, scans, strict=True):
        sections.append((f"How it runs on {artifact.target}", list(_running(artifact, op))))
    if variants:
        sections.append(("Variants, in the order in which a call is offered to them", list(variants)))
    remarks = [_proof_remark(each) for each in proof]
    remarks += [_placed_remark(each) for each in placed]
    for artifact, op in zip(artifacts, scans, strict=True):
        remarks.append(_schedule_remark(artifact, op))
        remarks += _kernel_remarks(artifact)
    return Explanation(_joined(sections), [{**remark, "function": name} for remark in remarks])


def _joined(sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    return (
        "\n\n".join("\n".join([title, *(f"  {line}".rstrip() for line in lines)]) for title, lines in sections) + "\n"
    )


# --- sections --------------------------------------------------------------------------------------------------


def _axes(op: scan.GenericOp) -> Iterator[str]:
    rows = op.axes_of_kind(IteratorKind.PARALLEL)
    states = [f"{axis} of {op.sizes.get(axis, '?')}" for axis in op.axes_of_kind(IteratorKind.STATE)]
    yield f"time {op.time_axis}; rows {' '.join(rows) or 'none'} (of any size)" + (
        f"; {', '.join(states)} positions inside a row, which values mix along" if states else ""
    )


def _proof(each: Proved) -> Iterator[str]:
    states = ", ".join(each.states)
    if each.refused:
        yield f"{states}: not proved associative, so time is walked in order"
        yield from wrap(f"because {each.why}", WIDTH, initial_indent="  ", subsequent_indent="  ")
        return
    yield f"{states}: {each.algebra}{f': {each.why}' if each.why else ''}"
    count = len(each.element)
    kinds = ", ".join(dict.fromkeys(each.element))
    numbers = f"{count} number{'s' * (count > 1)} ({kinds})"
    yield f"  a stretch of time of any length is summed up in {numbers}, and two such are combined into one"


def _placement(placed: Sequence[Placed], reads: Sequence[Read], op: scan.GenericOp) -> Iterator[str]:
    states = op.axes_of_kind(IteratorKind.STATE)

    def place(each: Placed | Read) -> tuple[Level, tuple[str, ...]]:
        return each.level, tuple(axis for axis in states if axis in each.axes)

    shown = [each for each in placed if not each.inline]
    first = {place(each): i for i, each in reversed(list(enumerate(shown)))}
    places = dict.fromkeys(map(place, (*reads, *shown)))
    for level, axes in sorted(places, key=lambda here: (list(Level).index(here[0]), first.get(here, -1))):
        yield level.value + (f" of {', '.join(axes)}" if axes else "")
        inputs = [each.name for each in reads if place(each) == (level, axes)]
        if inputs:
            yield f"  reads {', '.join(inputs)}"
        for each in shown:
            if place(each) == (level, axes):
                yield f"  {f'{each.name} = {each.text}':<64}  {_place(each.source)}".rstrip()


def _place(source: str) -> str:
    """`step.py:3` of `step.py:3: h = …`."""
    return ":".join(source.split(":")[:2])


def _running(artifact: Artifact, op: scan.GenericOp) -> Iterator[str]:
    for line in (*schedule_words(op), *layout_words(artifact.recipe), *kernel_words(artifact)):
        yield from wrap(line, WIDTH, subsequent_indent="  ")
    sizes = [f"{stage} {len(text.splitlines())} lines" for stage, text in artifact.stages.items()]
    sizes += [f"{kind} {len(binary)} bytes" for kind, binary in artifact.binaries.items()]
    yield from wrap(f"stages: {', '.join(sizes)}", WIDTH, subsequent_indent="  ")
    if not artifact.binaries:
        yield "No binary was made: what the kernel takes is not known here."


# --- remarks ---------------------------------------------------------------------------------------------------


def _proof_remark(each: Proved) -> dict[str, Any]:
    found = {"kind": "proof", "states": list(each.states), "proved": not each.refused, "algebra": each.algebra}
    return found | {"element": list(each.element), "why": each.why}


def _placed_remark(each: Placed) -> dict[str, Any]:
    return {
        "kind": "placement",
        "level": each.level.name.lower(),
        "operation": each.operation,
        "name": each.name,
        "formula": each.text,
        "axes": list(each.axes),
        "source": each.source,
    }


def _schedule_remark(artifact: Artifact, op: scan.GenericOp) -> dict[str, Any]:
    schedule = op.schedule
    assert schedule is not None
    numbers = {name: getattr(schedule, name).data for name in ("lanes", "warps", "row_lanes", "row_warps", "steps")}
    found = {"kind": "schedule", "target": artifact.target, "attribute": str(schedule), "tile": schedule.tile}
    return found | numbers | {"words": list(schedule_words(op))}


def _kernel_remarks(artifact: Artifact) -> Iterator[dict[str, Any]]:
    for kernel in artifact.recipe.kernels:
        found: dict[str, Any] = {"kind": "kernel", "target": artifact.target, "name": kernel.name}
        found |= {"block": kernel.block, "rows_per_block": kernel.per_block, "shared_bytes": kernel.shared_bytes}
        yield found | {"resources": artifact.resources.get(kernel.name, {})}
