"""A schedule, and what a kernel takes, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scanweaver.dialects import scan
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.dialects.schedule import BLELLOCH, ScheduleAttr
from scanweaver.gpu_exec.abi import Kernel, Recipe
from scanweaver.gpu_exec.artifact import Artifact


def schedule_words(op: scan.GenericOp) -> Iterator[str]:
    """Sentences about a scheduled scan, one a line."""
    schedule = op.schedule
    assert schedule is not None
    if op.is_reverse:
        yield "Time runs from the last step to the first."
    yield from _on_cpu(op, schedule) if schedule.target.data == "cpu" else _on_gpu(op, schedule)
    if schedule.is_serial:
        yield "A sequence cut anywhere and carried on (init=, return_last=) gives the same bits."
    else:
        yield f"A sequence cut at a multiple of {schedule.tile} steps and carried on gives the same bits."


def _on_cpu(op: scan.GenericOp, schedule: ScheduleAttr) -> Iterator[str]:
    yield "Time in order: a row is walked from step to step; the rows are shared out over threads."
    axis, width = schedule.vector.data, schedule.row_lanes.data
    if not axis or width == 1:
        yield "Scalars: no axis is known to fill a vector."
    elif op.kinds[axis] is IteratorKind.PARALLEL:
        yield f"A vector holds {width} neighbouring rows along {axis}; where {axis} is shorter, rows go one by one."
    else:
        yield f"A vector holds {width} states of one row along {axis}."
    if schedule.steps.data > 1:
        yield f"{schedule.steps.data} steps are loaded and stored at a time."


def _on_gpu(op: scan.GenericOp, schedule: ScheduleAttr) -> Iterator[str]:
    steps, lanes, warps = schedule.steps.data, schedule.lanes.data, schedule.warps.data
    if schedule.is_serial:
        yield "Time in order: one lane walks a row from step to step."
        if steps > 1:
            yield f"{steps} steps are loaded and stored at a time."
    else:
        who = " x ".join([f"{lanes} lanes"] * (lanes > 1) + [f"{warps} warps"] * (warps > 1))
        yield f"Parallel in time: {who} share a row and take {steps} steps each, a tile of {schedule.tile} steps."
        how = _block_scan(schedule)
        yield f"In a tile each folds the elements of its steps, {how}, and each walks its steps from there."
        yield "Tiles come one after the other; the states are carried from one to the next."
    order = " ".join(schedule.order_axes)
    many = f"{schedule.rows_per_block} rows" if schedule.rows_per_block > 1 else "one row"
    yield f"A block of {schedule.threads} threads takes {many} of [{order}]."


def _block_scan(schedule: ScheduleAttr) -> str:
    if schedule.algorithm.data == BLELLOCH:
        return "the folds are scanned by Blelloch's up-sweep and down-sweep in shared memory"
    parts = ["by shuffles within a warp"] * (schedule.lanes.data > 1)
    parts += ["through shared memory between warps"] * (schedule.warps.data > 1)
    return f"the folds are scanned {' and '.join(parts)}"


def layout_words(recipe: Recipe) -> Iterator[str]:
    """What the kernels rely on in memory."""
    groups: dict[str, list[str]] = {}
    for operand in recipe.operands:
        if operand.contiguous is not None:
            key = f"contiguous along {operand.contiguous}, {operand.align} byte{'s' * (operand.align > 1)} aligned"
            groups.setdefault(key, []).append(operand.name if operand.role != "last" else f"last {operand.name}")
    for key, names in groups.items():
        yield f"{', '.join(names)}: {key}"


def kernel_words(artifact: Artifact) -> Iterator[str]:
    """A line a kernel: its grid, its block, and what the assembler says it takes."""
    for kernel in artifact.recipe.kernels:
        parts = [_grid(kernel, artifact.target)]
        if artifact.target != "cpu":
            parts.append(f"{kernel.block} threads")
            parts.append(f"{kernel.shared_bytes} bytes of shared memory")
        takes = artifact.resources.get(kernel.name)
        if takes:
            parts.append(f"{takes.get('registers', 0)} registers a thread")
            spilled = takes.get("spill_bytes", 0)
            parts.append(f"{spilled} bytes spilled" if spilled else "nothing spilled")
        yield f"{kernel.name}: {', '.join(parts)}"


def _grid(kernel: Kernel, target: str) -> str:
    factors: Sequence[str] = [axis if axis != kernel.tiled else f"ceil({axis} / {kernel.tile})" for axis in kernel.rows]
    if kernel.tiled is not None and kernel.tiled not in kernel.rows:
        factors = [*factors, f"ceil({kernel.tiled} / {kernel.tile})"]
    product = " * ".join(factors) or "1"
    count = product if kernel.per_block == 1 else f"ceil({product} / {kernel.per_block})"
    return f"{count} {'tasks' if target == 'cpu' else 'blocks'}"
