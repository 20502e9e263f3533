"""What `recurrence.generic` and `scan.generic` share: an iteration space, operands with maps, verification.

The header's assembly, in `iteration_syntax.py`, reads

    forward [b: parallel, d: parallel, n: state, t: time]
      states(h[b, d, n] = %h0[d, n] : tensor<?x16xf32>)
      inputs(u = %u[b, d, t] : tensor<?x?x?xbf16>, A = %A[d, n] : tensor<?x16xf32>)
      results(y[b, d, t] : tensor<?x?x?xbf16>, last h[b, d, n] : tensor<?x?x16xf32>)

or, where states live in a pool (`slots.py` has the rules),

      states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
      slots(%slots[b] : tensor<?xi32>)
      results(last h[@b, d] into %pool : tensor<?x?xf32>)
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum


class IteratorKind(StrEnum):
    PARALLEL = "parallel"
    STATE = "state"
    TIME = "time"


class Direction(StrEnum):
    FORWARD = "forward"
    REVERSE = "reverse"


class ResultKind(StrEnum):
    """How an output is stored: at every step, at every K-th step, or summed over the axes that its map lacks."""

    STEP = "step"
    SAMPLED = "sampled"
    REDUCED = "reduced"


@irdl_attr_definition
class IteratorAttr(EnumAttribute[IteratorKind], SpacedOpaqueSyntaxAttribute):
    name = "recurrence.iterator"


@irdl_attr_definition
class DirectionAttr(EnumAttribute[Direction], SpacedOpaqueSyntaxAttribute):
    name = "recurrence.direction"


@irdl_attr_definition
class ResultKindAttr(EnumAttribute[ResultKind], SpacedOpaqueSyntaxAttribute):
    name = "recurrence.result"


@irdl_attr_definition
class LayoutAttr(ParametrizedAttribute):
    """What is known of a tensor's memory: the axis whose stride is 1 (or ""), and the bytes that its base and the
    start of each run along that axis are aligned to: `#recurrence.layout<"t", 16>`."""

    name = "recurrence.layout"
    contiguous: StringAttr
    align: IntAttr

    def __init__(self, contiguous: str, align: int):
        super().__init__(StringAttr(contiguous), IntAttr(align))

    def verify(self) -> None:
        if self.bytes < 1:
            raise VerifyException(f"a layout is aligned to 1 byte or more, got {self.bytes}")

    @property
    def axis(self) -> str:
        return self.contiguous.data

    @property
    def bytes(self) -> int:
        return self.align.data

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.axis)
            printer.print_string(f", {self.bytes}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axis = parser.parse_str_literal()
            parser.parse_punctuation(",")
            align = parser.parse_integer()
        return (StringAttr(axis), IntAttr(align))


@dataclass(frozen=True)
class Array:
    """One operand or result as the iteration space sees it: its name, its axes in dimension order, its type.

    `pooled`: its positions along the slot axis are slots, of which there are as many as it has, not rows.
    """

    name: str
    axes: tuple[str, ...]
    type: Attribute
    pooled: bool = False

    @property
    def element_type(self) -> Attribute:
        return element_type(self.type)

    @property
    def is_scalar(self) -> bool:
        return not isinstance(self.type, TensorType | MemRefType)


def element_type(type: Attribute) -> Attribute:
    """`tensor<?xf32>` -> `f32`; a scalar type is its own."""
    if isinstance(type, TensorType | MemRefType):
        return cast(Attribute, type.element_type)  # pyright: ignore[reportUnknownMemberType]
    return type


def shape_of(type: Attribute) -> tuple[int, ...]:
    """The shape of a tensor or memref, -1 for dynamic sizes; of a scalar, ()."""
    if isinstance(type, TensorType | MemRefType):
        return tuple(type.get_shape())  # pyright: ignore[reportUnknownMemberType]
    return ()


class IterationOp(IRDLOperation, ABC):
    """Operands, maps and results of one recurrence; the regions belong to the operations that derive from it."""

    inits = var_operand_def()
    inputs = var_operand_def()
    offsets = opt_operand_def()
    slots = opt_operand_def()
    destinations = var_operand_def()

    axes = prop_def(ArrayAttr[StringAttr])
    iterator_types = prop_def(ArrayAttr[IteratorAttr])
    direction = prop_def(DirectionAttr)
    state_names = prop_def(ArrayAttr[StringAttr])
    input_names = prop_def(ArrayAttr[StringAttr])
    output_names = prop_def(ArrayAttr[StringAttr])
    state_maps = prop_def(ArrayAttr[AffineMapAttr])
    init_maps = prop_def(ArrayAttr[AffineMapAttr])
    input_maps = prop_def(ArrayAttr[AffineMapAttr])
    result_maps = prop_def(ArrayAttr[AffineMapAttr])
    output_kinds = prop_def(ArrayAttr[ResultKindAttr])
    last = prop_def(DenseArrayBase.constr(i64))
    layouts = opt_prop_def(ArrayAttr[LayoutAttr])
    slot_axis = opt_prop_def(StringAttr)

    res = var_result_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    # --- the iteration space, read ----------------------------------------------------------------------------

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.axes)

    @property
    def kinds(self) -> dict[str, IteratorKind]:
        return {axis: kind.data for axis, kind in zip(self.axis_names, self.iterator_types, strict=True)}

    def axes_of_kind(self, kind: IteratorKind) -> tuple[str, ...]:
        return tuple(axis for axis, k in self.kinds.items() if k is kind)

    @property
    def time_axis(self) -> str:
        return self.axes_of_kind(IteratorKind.TIME)[0]

    @property
    def is_reverse(self) -> bool:
        return self.direction.data is Direction.REVERSE

    @property
    def num_states(self) -> int:
        return len(self.state_maps)

    @property
    def num_outputs(self) -> int:
        return len(self.output_kinds)

    @property
    def last_states(self) -> tuple[int, ...]:
        return tuple(int(i) for i in self.last.get_values())

    @property
    def state_types(self) -> tuple[Attribute, ...]:
        """The type that the body computes each state in."""
        raise NotImplementedError

    def map_axes(self, map: AffineMapAttr) -> tuple[str, ...]:
        """The axes that a map's results name, `t floordiv K` counted as t, the slot of a row as the row's axis."""
        return tuple(self._axis(expr) for expr in map.data.results)

    def _axis(self, expr: AffineExpr) -> str:
        if isinstance(expr, AffineSymExpr):
            return self.slot_axis.data if self.slot_axis is not None else ""
        return self.axis_names[result_dim(expr)]

    @property
    def states(self) -> tuple[Array, ...]:
        """The states, each with the type of its scalar."""
        return tuple(
            Array(name.data, self.map_axes(map), type)
            for name, map, type in zip(self.state_names, self.state_maps, self.state_types, strict=True)
        )

    @property
    def init_arrays(self) -> tuple[Array, ...]:
        return tuple(
            Array(name.data, self.map_axes(map), init.type, is_pooled(map))
            for name, map, init in zip(self.state_names, self.init_maps, self.inits, strict=True)
        )

    @property
    def input_arrays(self) -> tuple[Array, ...]:
        return tuple(
            Array(name.data, self.map_axes(map), value.type)
            for name, map, value in zip(self.input_names, self.input_maps, self.inputs, strict=True)
        )

    @property
    def result_arrays(self) -> tuple[Array, ...]:
        names = [name.data for name in self.output_names]
        names += [self.state_names.data[i].data for i in self.last_states]
        return tuple(
            Array(name, self.map_axes(map), result.type, is_pooled(map))
            for name, map, result in zip(names, self.result_maps, self.res, strict=True)
        )

    @property
    def output_maps(self) -> Sequence[AffineMapAttr]:
        return self.result_maps.data[: self.num_outputs]

    @property
    def last_maps(self) -> Sequence[AffineMapAttr]:
        return self.result_maps.data[self.num_outputs :]

    @property
    def slot_arrays(self) -> tuple[Array, ...]:
        """The slots of the rows, where they have some."""
        if self.slots is None or self.slot_axis is None:
            return ()
        return (Array("slots", (self.slot_axis.data,), self.slots.type),)

    @property
    def is_in_place(self) -> bool:
        """Whether last states go where their rows read what they started from."""
        return any(destination in self.inits for destination in self.destinations)

    def static_sizes(self, array: Array) -> dict[str, int]:
        """The sizes of axes that an array's type fixes; a pool's says nothing of its rows."""
        rows = self.slot_axis.data if array.pooled and self.slot_axis is not None else None
        sizes = dict(zip(array.axes, shape_of(array.type), strict=True))
        return {axis: size for axis, size in sizes.items() if size >= 0 and axis != rows}

    def sample_step(self, output: int) -> int:
        """K of an output stored every K-th step; 1 where it is stored at every step."""
        for expr in self.result_maps.data[output].data.results:
            if isinstance(expr, AffineBinaryOpExpr):
                assert isinstance(expr.rhs, AffineConstantExpr)
                return expr.rhs.value
        return 1

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that operand and result types fix."""
        found: dict[str, int] = {}
        # A sampled result has fewer steps than time.
        results = [array for i, array in enumerate(self.result_arrays) if self.sample_step(i) == 1]
        for array in (*self.init_arrays, *self.input_arrays, *self.slot_arrays, *results):
            if not array.is_scalar:
                found |= self.static_sizes(array)
        return found

    # --- verification -----------------------------------------------------------------------------------------

    def verify_iteration(self) -> None:
        from scanweaver.dialects.slots import verify_destinations, verify_slots  # which knows this class

        names = self.axis_names
        if len(set(names)) != len(names):
            raise VerifyException(f"axes must have different names, got {', '.join(names)}")
        if len(self.iterator_types) != len(names):
            raise VerifyException(f"{len(names)} axes need as many iterator types, got {len(self.iterator_types)}")
        times = self.axes_of_kind(IteratorKind.TIME)
        if len(times) != 1:
            raise VerifyException(f"exactly one axis is time, got {len(times)}")

        for what, count, expected in (
            ("state names", len(self.state_names), self.num_states),
            ("init maps", len(self.init_maps), self.num_states),
            ("inits", len(self.inits), self.num_states),
            ("input names", len(self.input_names), len(self.inputs)),
            ("input maps", len(self.input_maps), len(self.inputs)),
            ("output names", len(self.output_names), self.num_outputs),
            ("results", len(self.res), self.num_outputs + len(self.last_states)),
            ("result maps", len(self.result_maps), len(self.res)),
        ):
            if count != expected:
                raise VerifyException(f"expected {expected} {what}, got {count}")
        if not self.num_states:
            raise VerifyException("a recurrence has at least one state")
        if any(not 0 <= i < self.num_states for i in self.last_states):
            raise VerifyException(f"`last` names states 0 to {self.num_states - 1}, got {list(self.last_states)}")

        verify_slots(self)
        self._verify_maps(times[0])
        verify_destinations(self)
        self._verify_sizes()
        self._verify_layouts()
        if self.offsets is not None:
            type = self.offsets.type
            if not isinstance(type, TensorType | MemRefType) or len(type.get_shape()) != 1:
                raise VerifyException("offsets are a tensor or memref of one dimension")
            if element_type(self.offsets.type) not in (i32, i64):
                raise VerifyException(f"offsets are i32 or i64, got {element_type(self.offsets.type)}")

    def _verify_layouts(self) -> None:
        if self.layouts is None:
            return
        arrays = (*self.init_arrays, *self.input_arrays, *self.result_arrays)
        if len(self.layouts) != len(arrays):
            raise VerifyException("layouts, where given, are one per init, input and result")
        for i, (layout, array) in enumerate(zip(self.layouts, arrays, strict=True)):
            if layout.axis and layout.axis not in array.axes:
                raise VerifyException(f"layout #{i} is along axis '{layout.axis}' that '{array.name}' does not have")

    def _verify_maps(self, time: str) -> None:
        for kind, maps in (
            ("state", self.state_maps),
            ("init", self.init_maps),
            ("input", self.input_maps),
            ("result", self.result_maps),
        ):
            for i, attr in enumerate(maps):
                map = attr.data
                if map.num_dims != len(self.axes) or (map.num_symbols and not is_pooled(attr)):
                    raise VerifyException(f"{kind} map #{i} must be over the {len(self.axes)} axes, got {map}")
                for expr in map.results:
                    if isinstance(expr, AffineDimExpr | AffineSymExpr):
                        continue
                    sampled = (
                        kind == "result"
                        and i < self.num_outputs
                        and self.output_kinds.data[i].data is ResultKind.SAMPLED
                    )
                    if not (sampled and is_sampled(expr, self.axis_names.index(time))):
                        raise VerifyException(f"{kind} map #{i} must name axes only, got {map}")
                named = self.map_axes(attr)
                if len(set(named)) != len(named):
                    raise VerifyException(f"{kind} map #{i} names an axis twice: {map}")

        for i, (state, init) in enumerate(zip(self.state_maps, self.init_maps, strict=True)):
            if time in self.map_axes(state):
                raise VerifyException(f"state map #{i} carries time axis '{time}'; a state has no time")
            extra = set(self.map_axes(init)) - set(self.map_axes(state))
            if extra:
                raise VerifyException(f"init map #{i} has axis '{min(extra)}' that its state lacks")
        if not any(time in self.map_axes(map) for map in self.input_maps):
            raise VerifyException(f"at least one input must carry time axis '{time}'")
        for i, kind in enumerate(self.output_kinds):
            has_time = time in self.map_axes(self.result_maps.data[i])
            if kind.data is not ResultKind.REDUCED and not has_time:
                raise VerifyException(f"result map #{i} is stored by step and must carry time axis '{time}'")
            if kind.data is ResultKind.SAMPLED and self.sample_step(i) == 1:
                raise VerifyException(f"result map #{i} is sampled: every K-th step with K > 1")
        for j, i in enumerate(self.last_states, self.num_outputs):
            if set(self.map_axes(self.result_maps.data[j])) != set(self.map_axes(self.state_maps.data[i])):
                raise VerifyException(f"result map #{j} is the last value of state #{i} and must have its axes")

    def _verify_sizes(self) -> None:
        sizes: dict[str, int] = {}
        for kind, arrays in (
            ("init", self.init_arrays),
            ("input", self.input_arrays),
            ("slots", self.slot_arrays),
            ("result", self.result_arrays),
        ):
            for i, array in enumerate(arrays):
                type = array.type
                if not isinstance(type, TensorType | MemRefType):
                    if kind == "result" or not isinstance(type, AnyFloat | IntegerType):
                        raise VerifyException(f"{kind} #{i} must be a tensor, a memref or a scalar, got {type}")
                    if array.axes:
                        raise VerifyException(f"{kind} #{i} is a scalar and its map must be empty")
                    continue
                shape = type.get_shape()
                if len(shape) != len(array.axes):
                    raise VerifyException(
                        f"{kind} #{i} has {len(shape)} dimensions and its map has {len(array.axes)}: {type}"
                    )
                sampled = kind == "result" and self.sample_step(i) > 1
                for axis, size in self.static_sizes(array).items():
                    if sampled and axis == self.time_axis:
                        continue
                    if sizes.setdefault(axis, size) != size:
                        raise VerifyException(f"axis '{axis}' has sizes {sizes[axis]} and {size} ({kind} #{i})")
        self._verify_sampled(sizes.get(self.time_axis))

    def _verify_sampled(self, steps: int | None) -> None:
        """A sampled result holds as many steps as T steps have multiples of K, where both numbers are known."""
        for i in range(self.num_outputs):
            step, array = self.sample_step(i), self.result_arrays[i]
            if step == 1 or steps is None:
                continue
            got, expected = shape_of(array.type)[array.axes.index(self.time_axis)], -(-steps // step)
            if got not in (expected, DYNAMIC_INDEX):
                raise VerifyException(f"result #{i} has every {step}-th of {steps} steps: {expected}, got {got}")


# --- maps ------------------------------------------------------------------------------------------------------


def axes_map(num_axes: int, results: Sequence[AffineExpr]) -> AffineMapAttr:
    return AffineMapAttr(AffineMap(num_axes, 0, tuple(results)))


def map_of(axes: Sequence[str], of: Sequence[str]) -> AffineMapAttr:
    """The map over `axes` whose results are the axes `of`, in their order."""
    return axes_map(len(axes), [AffineExpr.dimension(axes.index(axis)) for axis in of])


def is_pooled(map: AffineMapAttr) -> bool:
    """Whether a map names the slot of a row, `affine_map<(b, d)[slot] -> (slot, d)>`, instead of the row."""
    return any(isinstance(expr, AffineSymExpr) for expr in map.data.results)


def pool_map(axes: Sequence[str], of: Sequence[str], slot_axis: str) -> AffineMapAttr:
    """The map over `axes` whose results are the axes `of`, at the slot axis the slot."""
    exprs = [AffineExpr.symbol(0) if axis == slot_axis else AffineExpr.dimension(axes.index(axis)) for axis in of]
    return AffineMapAttr(AffineMap(len(axes), 1, tuple(exprs)))


def is_sampled(expr: AffineExpr, time: int) -> bool:
    """Whether `expr` is `t floordiv K` with K > 1."""
    return (
        isinstance(expr, AffineBinaryOpExpr)
        and isinstance(expr.lhs, AffineDimExpr)
        and isinstance(expr.rhs, AffineConstantExpr)
        and expr.rhs.value > 1
        and expr == AffineExpr.dimension(time) // expr.rhs.value
    )


def result_dim(expr: AffineExpr) -> int:
    if isinstance(expr, AffineBinaryOpExpr):
        expr = expr.lhs
    assert isinstance(expr, AffineDimExpr)
    return expr.position


def iteration_properties(
    *,
    direction: Direction,
    axes: dict[str, IteratorKind],
    states: Sequence[tuple[str, AffineMapAttr]],
    init_maps: Sequence[AffineMapAttr],
    inputs: Sequence[tuple[str, AffineMapAttr]],
    outputs: Sequence[tuple[str, ResultKind]],
    last: Sequence[int],
    result_maps: Sequence[AffineMapAttr],
    layouts: Sequence[LayoutAttr] | None = None,
    slot_axis: str | None = None,
) -> dict[str, Attribute]:
    """The properties of an operation of the iteration space; `result_maps` are the outputs', then the last states'."""
    properties: dict[str, Attribute] = {
        "axes": ArrayAttr(StringAttr(axis) for axis in axes),
        "iterator_types": ArrayAttr(IteratorAttr(kind) for kind in axes.values()),
        "direction": DirectionAttr(direction),
        "state_names": ArrayAttr(StringAttr(name) for name, _ in states),
        "input_names": ArrayAttr(StringAttr(name) for name, _ in inputs),
        "output_names": ArrayAttr(StringAttr(name) for name, _ in outputs),
        "state_maps": ArrayAttr(map for _, map in states),
        "init_maps": ArrayAttr(init_maps),
        "input_maps": ArrayAttr(map for _, map in inputs),
        "result_maps": ArrayAttr(result_maps),
        "output_kinds": ArrayAttr(ResultKindAttr(kind) for _, kind in outputs),
        "last": DenseArrayBase.from_list(i64, list(last)),
    }
    if layouts is not None:
        properties["layouts"] = ArrayAttr(layouts)
    if slot_axis is not None:
        properties["slot_axis"] = StringAttr(slot_axis)
    return properties
