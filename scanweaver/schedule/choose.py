"""Chooses a schedule from what is known at compile time: layouts, element sizes, and sizes of axes as hints."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from scanweaver.cpu_exec import host
from scanweaver.dialects.block_scan import sweep_slots
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.dialects.scan import GenericOp
from scanweaver.dialects.schedule import BLELLOCH, SHUFFLE, ScheduleAttr
from scanweaver.errors import NotAssociativeError, ScanWeaverError
from scanweaver.schedule import chip
from scanweaver.transforms.skeleton.memory import byte_size
from scanweaver.transforms.skeleton.phases import axes_with_positions, needs_single_steps

STRATEGIES = ("auto", "lanes", "serial", "blelloch")
ACROSS_TIME = ("lanes", "blelloch")
MIN_TASKS = 16
TILE_ELEMENTS = 128
"""Rows times steps of a tile on the CPU: enough to move them in whole vectors, few enough for the registers."""
MIN_LANES = 4
"""Vectors of fewer lanes are not worth the moves between them."""
MANY = 1 << 16
"""What a size is taken for where nothing is known of it."""


def choose(op: GenericOp, target: str, strategy: str = "auto", sizes: Mapping[str, int] | None = None) -> ScheduleAttr:
    """The schedule for a target (`sm_90`, `cpu`, …).

    `strategy`: `lanes` puts lanes (or warps) across time, `blelloch` does so and scans their folds by two sweeps in
    workgroup memory, `serial` walks time in order, `auto` takes lanes where the step is proved associative and there
    is something to gain. `sizes` are hints; a kernel takes any size.
    Raises NotAssociativeError for `lanes` without a proof, ScanWeaverError for another target or strategy.
    """
    if strategy not in STRATEGIES:
        raise ScanWeaverError(f"strategy is one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if target != "cpu" and not chip.is_gpu(target):
        raise ScanWeaverError(f"target is cpu or a chip from sm_80 on, such as sm_90, got {target!r}")
    known = dict(sizes or {})
    if strategy in ACROSS_TIME and op.slots is not None:
        raise ScanWeaverError(f'strategy="{strategy}" has no rows without a slot: states in slots are walked serially')
    if strategy in ACROSS_TIME and not op.is_associative:
        reasons = "; ".join(c.reason.data for c in op.component_ops if c.reason is not None)
        raise NotAssociativeError(f'strategy="{strategy}" needs an associative step, but {reasons}')
    if target == "cpu":
        if strategy in ACROSS_TIME:
            raise ScanWeaverError(f'strategy="{strategy}" is for GPUs: a CPU walks time in order')
        return _for_cpu(op, known)
    return _for_gpu(op, target, strategy, known)


# --- GPU -------------------------------------------------------------------------------------------------------


def _for_gpu(op: GenericOp, target: str, strategy: str, sizes: Mapping[str, int]) -> ScheduleAttr:
    limits = chip.gpu(target)
    rows = prod(sizes.get(axis, MANY) for axis in op.axes_of_kind(IteratorKind.PARALLEL))
    steps = sizes.get(op.time_axis, MANY)
    contiguous = contiguous_axis(op)
    order = row_order(op, contiguous)
    busy = limits.multiprocessors * chip.BUSY_WARPS
    if strategy == "auto":
        strategy = _strategy(op, contiguous, rows, steps, busy)
    if strategy == "serial":
        return _serial(op, target, order, contiguous, rows, busy)
    per_lane = _steps_per_lane(op, contiguous)
    lanes = chip.WARP if contiguous == op.time_axis else 1
    warps = _warps_across_time(rows * lanes // chip.WARP, busy, steps, lanes * per_lane)
    if lanes == 1:
        warps = max(warps, 2)
    row_lanes = chip.WARP // lanes
    row_warps = max(1, 4 // warps)
    while row_warps > 1 and rows <= row_lanes * row_warps // 2:
        row_warps //= 2
    algorithm = BLELLOCH if strategy == "blelloch" else SHUFFLE
    schedule = ScheduleAttr(
        target,
        order,
        lanes=lanes,
        warps=warps,
        row_lanes=row_lanes,
        row_warps=row_warps,
        steps=per_lane,
        algorithm=algorithm,
    )
    return _fitting(op, schedule, limits.shared_bytes)


def _strategy(op: GenericOp, contiguous: str, rows: int, steps: int, busy: int) -> str:
    if not op.is_associative or op.slots is not None:
        return "serial"
    if contiguous != op.time_axis and rows >= busy * chip.WARP:
        return "serial"  # one lane a row fills the chip, reads whole lines and does the least work
    return "lanes" if steps > 1 else "serial"


def _serial(op: GenericOp, target: str, order: tuple[str, ...], contiguous: str, rows: int, busy: int) -> ScheduleAttr:
    row_warps = 4
    while row_warps > 1 and rows < busy * chip.WARP:
        row_warps //= 2
        busy //= 2
    steps = 1 if one_step(op) or needs_single_steps(op) else _steps_per_lane(op, contiguous)
    return ScheduleAttr(target, order, row_lanes=chip.WARP, row_warps=row_warps, steps=steps)


def _steps_per_lane(op: GenericOp, contiguous: str) -> int:
    """K: what one wide access holds, or enough to hide its latency; fewer where an element has many values."""
    smallest = min(byte_size(array.element_type) for array in op.input_arrays if op.time_axis in array.axes)
    steps = max(chip.LANE_BYTES // smallest, 4) if contiguous == op.time_axis else 8
    values = sum(len(c.element_types) for c in op.component_ops if not c.is_sequential)
    if has_state_axes(op) and values <= 4:
        steps = max(steps, 8)
    while steps > 4 and steps * values > 40:
        steps //= 2
    return steps


def _warps_across_time(row_warps: int, busy: int, steps: int, warp_steps: int) -> int:
    """Warps of a block that take a row's tile together: more of them where rows alone leave the chip idle."""
    warps = 1
    while warps < 8 and row_warps * warps < busy and warps * warp_steps < steps:
        warps *= 2
    return warps


def _fitting(op: GenericOp, schedule: ScheduleAttr, shared_bytes: int) -> ScheduleAttr:
    """The schedule with as few rows a block as its states' carries, and the trees of sweeps, need to fit into shared
    memory."""
    row_warps = schedule.row_warps.data
    a_row = carried_bytes(op)
    if schedule.algorithm.data == BLELLOCH:
        a_row += _tree_bytes(op, schedule.lanes.data * schedule.warps.data, by_row=schedule.lanes.data == 1)

    def needed(row_warps: int) -> int:
        return a_row * schedule.row_lanes.data * row_warps

    while row_warps > 1 and needed(row_warps) > shared_bytes // 2:
        row_warps //= 2
    if needed(row_warps) > shared_bytes:
        return _serial(op, schedule.target.data, schedule.order_axes, contiguous_axis(op), MANY, 1)
    return ScheduleAttr(
        schedule.target.data,
        schedule.order_axes,
        lanes=schedule.lanes.data,
        warps=schedule.warps.data,
        row_lanes=schedule.row_lanes.data,
        row_warps=row_warps,
        steps=schedule.steps.data,
        algorithm=schedule.algorithm.data,
    )


def _tree_bytes(op: GenericOp, participants: int, by_row: bool) -> int:
    """Bytes of one row's sweeps: an element and its states in every node, for each component."""
    sizes = [
        byte_size(type)
        for component in op.component_ops
        for type in (*component.element_types, *(op.states[i].type for i in component.state_indices))
    ]
    return sum(sweep_slots(participants, 1, by_row, bytes) * bytes for bytes in sizes)


def carried_bytes(op: GenericOp) -> int:
    """Bytes of one row's states."""
    axes = op.axes_of_kind(IteratorKind.STATE)
    return sum(
        prod(op.sizes.get(axis, 1) for axis in axes if axis in state.axes) * byte_size(state.type)
        for state in op.states
    )


# --- CPU -------------------------------------------------------------------------------------------------------


def _for_cpu(op: GenericOp, sizes: Mapping[str, int]) -> ScheduleAttr:
    lanes = host.vector_bytes() // max(4, *(byte_size(state.type) for state in op.states))
    contiguous = contiguous_axis(op)
    axis, width = _vector_axis(op, contiguous, lanes, sizes)
    if axis == contiguous and not has_state_axes(op):
        width = _several_registers(op, width, sizes)
    order = tuple(a for a in row_order(op, contiguous) if a != axis)
    one = one_step(op) or needs_single_steps(op)
    steps = 1 if one else 8 if width == 1 else min(width, max(4, TILE_ELEMENTS // width))
    return ScheduleAttr("cpu", order, vector=axis, row_lanes=width, steps=steps)


def _several_registers(op: GenericOp, width: int, sizes: Mapping[str, int]) -> int:
    """Lanes for light steps whose rows are neighbours: up to four registers, so that a step reads several cache lines
    of a page, as long as there are tasks for many threads."""
    rows = prod(sizes.get(axis, MANY) for axis in op.axes_of_kind(IteratorKind.PARALLEL))
    registers = 4
    while registers > 1 and rows < MIN_TASKS * registers * width:
        registers //= 2
    return registers * width


def _vector_axis(op: GenericOp, contiguous: str, lanes: int, sizes: Mapping[str, int]) -> tuple[str, int]:
    """The axis that vectors run along, and how many lanes they have: rows where there are enough of them, else the
    states of one row, else the few rows that there are. None of an axis by which a step asks for positions, or whose
    rows have slots."""
    slots = op.slot_axis.data if op.slot_axis is not None else ""
    parallel = [axis for axis in op.axes_of_kind(IteratorKind.PARALLEL) if axis != slots]
    rows = {axis: _power_of_two(sizes.get(axis, MANY), lanes) for axis in parallel}
    states = {
        axis: _dividing(op.sizes.get(axis, 1), lanes)
        for axis in op.axes_of_kind(IteratorKind.STATE)
        if all(axis in state.axes for state in op.states) and axis not in axes_with_positions(op)
    }

    def by_inputs(axis: str) -> tuple[bool, int, int]:
        return axis == contiguous, sum(axis in array.axes for array in op.input_arrays), parallel.index(axis)

    full = [axis for axis, width in rows.items() if width == lanes]
    if full:
        return max(full, key=by_inputs), lanes
    widths = states | rows  # of equal widths the first: states of one row need fewer bytes at once
    axis = max(widths, key=lambda axis: widths[axis], default="")
    return (axis, widths[axis]) if axis and widths[axis] >= MIN_LANES else ("", 1)


def _power_of_two(size: int, limit: int) -> int:
    """The largest power of two that is neither above size nor limit."""
    return 1 << (max(1, min(size, limit)).bit_length() - 1)


def _dividing(size: int, limit: int) -> int:
    """The largest power of two that divides size and is not above limit."""
    return min(size & -size, limit)


# --- both ------------------------------------------------------------------------------------------------------


def contiguous_axis(op: GenericOp) -> str:
    """The axis that most bytes of the inputs and outputs over time (of all, in one step) are contiguous along; time
    where none is."""
    if op.layouts is None:
        return op.time_axis
    arrays = (*op.init_arrays, *op.input_arrays, *op.result_arrays)
    weights: dict[str, int] = {}
    for array, layout in zip(arrays, op.layouts, strict=True):
        if (one_step(op) or op.time_axis in array.axes) and not array.is_scalar:
            weight = byte_size(array.element_type) * len(array.axes)
            weights[layout.axis] = weights.get(layout.axis, 0) + weight
    weights.pop("", None)
    known = {axis: w for axis, w in weights.items() if op.kinds[axis] is not IteratorKind.STATE}
    return max(known, key=lambda axis: known[axis], default=op.time_axis)


def one_step(op: GenericOp) -> bool:
    """Whether there is one step, by the types: a state is as much traffic as an input then."""
    return op.sizes.get(op.time_axis) == 1


def row_order(op: GenericOp, contiguous: str) -> tuple[str, ...]:
    """The parallel axes, the contiguous one innermost."""
    axes = op.axes_of_kind(IteratorKind.PARALLEL)
    return (*(axis for axis in axes if axis != contiguous), *(axis for axis in axes if axis == contiguous))


def has_state_axes(op: GenericOp) -> bool:
    return bool(op.axes_of_kind(IteratorKind.STATE))
