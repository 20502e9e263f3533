"""What the regions of the `scan` dialect end in, and the checks that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def, var_operand_def
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from scanweaver.dialects.recurrence import ReduceOp, RenameOp, TakeOp


@irdl_op_definition
class ScanYieldOp(IRDLOperation):
    """Ends every region but `step`: `scan.yield %a, %b : f32, f32`."""

    name = "scan.yield"
    values = var_operand_def()
    assembly_format = "($values^ `:` type($values))? attr-dict"
    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


def yielded(region: Region) -> tuple[SSAValue, ...]:
    """What a region's `scan.yield` yields."""
    op = region.block.last_op
    if not isinstance(op, ScanYieldOp):
        raise VerifyException("the region ends in scan.yield")
    return tuple(op.values)


def check_elementwise(what: str, block: Block) -> None:
    """A lane holds one position of an element: combine and apply are straight-line and read no other."""
    for op in block.ops:
        if op.regions or isinstance(op, ReduceOp | RenameOp | TakeOp):
            raise VerifyException(f"{what} is straight-line and works position by position, got {op.name}")


def check_types(what: str, got: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    if tuple(got) != tuple(expected):
        names = [", ".join(str(type) for type in types) or "none" for types in (expected, got)]
        raise VerifyException(f"{what} must be {names[0]}, got {names[1]}")


def inlined(
    region: Region,
    arguments: Sequence[SSAValue],
    write: Callable[[Operation, dict[SSAValue, SSAValue]], Sequence[SSAValue]],
) -> list[SSAValue]:
    """What a region yields for these arguments; `write` copies one operation, given what its operands stand for."""
    values: dict[SSAValue, SSAValue] = dict(zip(region.block.args, arguments, strict=True))
    for op in region.block.ops:
        if isinstance(op, ScanYieldOp):
            return [values[value] for value in op.values]
        values |= dict(zip(op.results, write(op, values), strict=True))
    raise AssertionError("a region without scan.yield")
