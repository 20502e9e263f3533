"""Values that vary over a row's states but not over time, computed before the walk and kept in buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, Operation, SSAValue

from scanweaver.dialects.recurrence import Axes
from scanweaver.transforms.skeleton.carry import Carry
from scanweaver.transforms.skeleton.evaluate import Evaluator, New, Old
from scanweaver.transforms.skeleton.memory import Tensor

KeptBuffer = Callable[[SSAValue, Axes], Carry | None]
"""Makes the buffer for a value with these axes; None: too large to be kept."""


def keep_untimed(evaluator: Evaluator, buffer: KeptBuffer) -> None:
    """Computes what steps read of such values, where that is more than one load, and has them read from buffers."""
    evaluator.kept_at = evaluator.write.scope
    for value in _read_by_steps(evaluator):
        axes = evaluator.axes[value]
        carry = buffer(value, axes)
        if carry is None:
            continue

        def body(_: Sequence[SSAValue], value: SSAValue = value, carry: Carry = carry) -> Sequence[SSAValue]:
            axes = evaluator.axes[value]
            computed = evaluator.widened(evaluator.value(value, 0), axes)
            carry.store(evaluator.memory, evaluator.positions(tuple(axes)), computed)
            return ()

        evaluator.nest([axis for axis in evaluator.state_axes if axis in axes], (), body)
        evaluator.kept[value] = carry


def _read_by_steps(evaluator: Evaluator) -> list[SSAValue]:
    """In order of their computation, the values over states but not time that timed operations read."""
    found: dict[SSAValue, None] = {}
    for op in _operations(evaluator):
        if op.results and evaluator.time not in evaluator.axes[op.results[0]]:
            continue
        for operand in op.operands:
            value = _named(evaluator, operand)
            if isinstance(value, SSAValue) and _is_kept(evaluator, value):
                found[value] = None
    return list(found)


def _operations(evaluator: Evaluator) -> Iterator[Operation]:
    for region in (evaluator.op.prelude, evaluator.op.step):
        yield from region.block.ops


def _named(evaluator: Evaluator, value: SSAValue) -> SSAValue | Old | New:
    """What a region's argument stands for."""
    found = evaluator.alias.get(value, value)
    return _named(evaluator, found) if isinstance(found, SSAValue) and found is not value else found


def _is_kept(evaluator: Evaluator, value: SSAValue) -> bool:
    axes = evaluator.axes[value]
    if evaluator.time in axes or not axes & set(evaluator.state_axes) or isinstance(value.owner, arith.ConstantOp):
        return False
    if not isinstance(value, BlockArgument):
        return True
    source = evaluator.inputs[value.index]
    return isinstance(source, Tensor) and evaluator.memory.is_gathered(source)
