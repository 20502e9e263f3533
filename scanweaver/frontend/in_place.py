"""One step of any recurrence, written so that its states are advanced where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from scanweaver.dialects.iteration import pool_map
from scanweaver.dialects.recurrence import segments
from scanweaver.frontend.signature import Signature
from scanweaver.frontend.source import Source
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.trace import RESULT_DTYPES, iteration_of
from scanweaver.frontend.values import mlir_type


@dataclass(frozen=True)
class InPlace:
    """A source whose last states, of which a specialization asks for all, go where their starts are."""

    source: Source

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def signature(self) -> Signature:
        return self.source.signature

    @property
    def fixed_sizes(self) -> Mapping[str, int]:
        return self.source.fixed_sizes

    @property
    def fixed_dtypes(self) -> Mapping[str, Any]:
        return self.source.fixed_dtypes

    @property
    def required_starts(self) -> tuple[str, ...]:
        return tuple(state.name for state in self.signature.states)

    def module(self, specialization: Specialization) -> ModuleOp:
        """The function's arguments are the source's, then the slots, then the pools of copied states."""
        module = self.source.module(specialization)
        advance_in_place(module, specialization)
        return module


def advance_in_place(module: ModuleOp, specialization: Specialization) -> None:
    """
    rewrite: states(h = %h[b, d]) results(last h[b, d])
          -> states(h = %h[@b, d]) slots(%slots[b]) results(last h[@b, d] into %h)

    without slots by row; where a start is a copy, `states(h = %copy[b, d]) results(last h[@b, d] into %pool)`. A last
    state is held in the type that its start is.
    """
    op = iteration_of(module)
    function = cast(func.FuncOp, op.parent_op())
    block = function.body.block
    copied = [i in specialization.copied for i, init in enumerate(specialization.inits) if init for _ in init.parts]

    def argument(given: Given, type: Attribute) -> SSAValue:
        value = block.insert_arg(type, len(block.args))
        value.name_hint = given.name
        return value

    slots = specialization.slots
    rows = [argument(slots, TensorType(mlir_type(slots.dtype), [DYNAMIC_INDEX]))] if slots else []
    pools = iter(specialization.pools)
    places = [
        argument(next(pools), init.type) if is_copy else init for init, is_copy in zip(op.inits, copied, strict=True)
    ]
    properties = dict(op.properties)
    if slots:
        (axis,) = slots.axes
        maps = [pool_map(op.axis_names, op.map_axes(map), axis) for map in op.init_maps]
        by_row = zip(maps, op.init_maps, copied, strict=True)
        properties |= {
            "slot_axis": StringAttr(axis),
            "init_maps": ArrayAttr(own if is_copy else pool for pool, own, is_copy in by_row),
            "result_maps": ArrayAttr([*op.output_maps, *maps]),
        }
    operands = [list(op.inits), list(op.inputs), [], rows, places]
    advanced = type(op).create(
        operands=[value for group in operands for value in group],
        properties=properties | {"operandSegmentSizes": segments(operands)},
        result_types=[*op.res.types[: op.num_outputs], *(place.type for place in places)],
        regions=[op.detach_region(region) for region in list(op.regions)],
    )
    Rewriter.replace_op(op, advanced)
    function.update_function_type()
    dtypes = cast(ArrayAttr[StringAttr], function.attributes[RESULT_DTYPES]).data
    kept = [StringAttr(init.dtype) for init in specialization.inits if init is not None]
    function.attributes[RESULT_DTYPES] = ArrayAttr([*dtypes[: len(dtypes) - len(kept)], *kept])
