"""Tensors as a kernel sees them: a pointer, strides, and loads and stores of one element or of K steps.

`vector` is the axis that vector lanes run along (None: scalars). An element of a tensor that has that axis is a
vector of `width` neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, llvm, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    Float16Type,
    VectorType,
    i1,
    i8,
    i16,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from scanweaver.dialects.arith import ExtUIOp, is_vector, like, split_type
from scanweaver.transforms.skeleton.lanes import LaneMoves, moved
from scanweaver.transforms.skeleton.scopes import Writer

VECTOR_BYTES = 16
"""The widest access of one GPU lane."""


def storage_type(type: Attribute) -> Attribute:
    """The type in memory: a bool is a byte."""
    return like(type, i8) if split_type(type)[0] == i1 else type


def moved_type(type: Attribute) -> Attribute:
    """The type that lanes of vectors are moved in: hosts shuffle bits, not halves."""
    return i16 if is_half(type) else storage_type(type)


def is_half(type: Attribute) -> bool:
    return isinstance(type, BFloat16Type | Float16Type)


def byte_size(type: Attribute) -> int:
    """Bytes of one element in memory."""
    element, shape = split_type(storage_type(type))
    assert isinstance(element, FixedBitwidthType), f"no size for {type}"
    return prod(shape or (1,)) * element.bitwidth // 8


@dataclass
class Tensor:
    """One tensor operand or result, addressed by axis."""

    name: str
    axes: tuple[str, ...]
    element: Attribute
    pointer: SSAValue
    """Address of the element whose parallel positions are this row's and whose other positions are 0."""
    strides: Mapping[str, SSAValue | int]
    """Elements from one position to the next; 1 where the axis is contiguous."""
    align: int


@dataclass(frozen=True)
class Steps:
    """The memory positions of K consecutive steps of time."""

    positions: tuple[SSAValue, ...]
    """Position of each step, in order of time."""
    first: SSAValue
    """Lowest position of the stretch."""
    reverse: bool
    whole: bool
    """Every step lies inside the tensor, next to the one before it."""

    def ordered(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """From memory order to order of time, or back."""
        return list(reversed(values)) if self.reverse else list(values)


class Memory:
    """Loads and stores through a writer; `moves` where there are vectors."""

    def __init__(self, write: Writer, vector_axis: str | None = None, width: int = 1, moves: LaneMoves | None = None):
        self.write = write
        self.axis = vector_axis
        self.width = width
        self._moves = moves

    @property
    def moves(self) -> LaneMoves:
        assert self._moves is not None
        return self._moves

    def is_vector(self, axes: Sequence[str]) -> bool:
        return self.width > 1 and self.axis in axes

    def is_gathered(self, tensor: Tensor) -> bool:
        """Whether a vector of a tensor's elements takes a load a lane."""
        return self.is_vector(tensor.axes) and tensor.strides[self.axis or ""] != 1

    def lanes(self, type: Attribute, axes: Sequence[str]) -> Attribute:
        """The type of a value with these axes."""
        return VectorType(type, [self.width]) if self.is_vector(axes) else type

    # --- addresses --------------------------------------------------------------------------------------------

    def address(self, tensor: Tensor, positions: Mapping[str, SSAValue]) -> SSAValue:
        offset = self._offset(tensor, positions)
        return tensor.pointer if offset is None else self.advanced(tensor.pointer, offset, tensor.element)

    def advanced(self, base: SSAValue, offset: SSAValue, element: Attribute) -> SSAValue:
        """An address `offset` elements further."""
        return moved(self.write, base, offset, storage_type(element))

    def _offset(self, tensor: Tensor, positions: Mapping[str, SSAValue]) -> SSAValue | None:
        """Elements from the tensor's pointer to some positions; a vector where a position is one."""
        offset: SSAValue | None = None
        for axis, position in positions.items():
            stride = tensor.strides[axis]
            part = position if isinstance(stride, int) else self.write.mul(position, stride)
            offset = part if offset is None else self.write.add(offset, part)
        return offset

    def _between_lanes(self, tensor: Tensor) -> SSAValue:
        """Elements from one lane's to the next lane's."""
        stride = tensor.strides[self.axis or ""]
        return self.write.constant(stride) if isinstance(stride, int) else stride

    # --- one position -----------------------------------------------------------------------------------------

    def load(self, tensor: Tensor, positions: Mapping[str, SSAValue]) -> SSAValue:
        offset = self._offset(tensor, positions)
        if offset is not None and is_vector(offset.type):
            if self.is_vector(tensor.axes):
                offset = self.write.add(offset, self.write.mul(self.lane_numbers(), self._between_lanes(tensor)))
            return self.gather_at(tensor.pointer, offset, tensor.element)
        address = self.address(tensor, positions)
        if not self.is_vector(tensor.axes):
            return self._load(address, tensor.element, 1)
        if not self.is_gathered(tensor):
            return self._load(address, tensor.element, self.width)
        moved = self.moves.gather(self.write, moved_type(tensor.element), address, self._between_lanes(tensor))
        return self._after_move(moved, tensor.element)

    def store(self, tensor: Tensor, positions: Mapping[str, SSAValue], value: SSAValue) -> None:
        address = self.address(tensor, positions)
        if self.is_gathered(tensor):
            self.moves.scatter(self.write, self._before_move(value), address, self._between_lanes(tensor))
        else:
            self._store(address, value)

    def gather_at(self, base: SSAValue, offsets: SSAValue, element: Attribute) -> SSAValue:
        """A vector of elements, each lane's at an offset of its own."""
        return self._after_move(self.moves.gather_at(self.write, moved_type(element), base, offsets), element)

    def lane_numbers(self) -> SSAValue:
        """0, 1, … W - 1."""
        numbers = DenseIntOrFPElementsAttr.from_list(VectorType(i64, [self.width]), list(range(self.width)))
        return self.write.value(arith.ConstantOp(numbers))

    # --- K steps of time --------------------------------------------------------------------------------------

    def load_steps(self, tensor: Tensor, positions: Mapping[str, SSAValue], time: str, steps: Steps) -> list[SSAValue]:
        """One value per step, in order of time."""
        count = len(steps.positions)
        if self._is_block(tensor, time, steps):
            first = self.address(tensor, {**positions, time: steps.first})
            ahead = -1 if steps.reverse else 1
            stride, type = self._between_lanes(tensor), moved_type(tensor.element)
            columns = self.moves.load_rows(self.write, type, first, stride, count, ahead)
            return steps.ordered([self._after_move(column, tensor.element) for column in columns])
        if self._is_strip(tensor, steps):
            first = self.address(tensor, {**positions, time: steps.first})
            stride, type = tensor.strides[time], moved_type(tensor.element)
            assert isinstance(stride, SSAValue)
            rows = self.moves.load_steps(self.write, type, first, stride, count, -1 if steps.reverse else 1)
            return steps.ordered([self._after_move(row, tensor.element) for row in rows])
        run = self._run(tensor, time, steps)
        if run == 1:
            return [self.load(tensor, {**positions, time: at}) for at in steps.positions]
        first = self.address(tensor, {**positions, time: steps.first})
        loaded: list[SSAValue] = []
        for start in range(0, count, run):
            chunk = self._load(self._shifted(first, start, tensor.element), tensor.element, run, aligned=True)
            loaded += [self.write.value(vector.ExtractOp(chunk, [i], tensor.element)) for i in range(run)]
        return steps.ordered(loaded)

    def store_steps(
        self,
        tensor: Tensor,
        positions: Mapping[str, SSAValue],
        time: str,
        steps: Steps,
        values: Sequence[SSAValue],
    ) -> None:
        """Stores one value per step; all of `steps` must lie inside the tensor."""
        count = len(values)
        if self._is_block(tensor, time, steps):
            first = self.address(tensor, {**positions, time: steps.first})
            moved = [self._before_move(value) for value in steps.ordered(values)]
            self.moves.store_rows(self.write, moved, first, self._between_lanes(tensor))
            return
        run = self._run(tensor, time, steps)
        if run == 1:
            for at, value in zip(steps.positions, values, strict=True):
                self.store(tensor, {**positions, time: at}, value)
            return
        first = self.address(tensor, {**positions, time: steps.first})
        ordered = steps.ordered(values)
        type = VectorType(tensor.element, [run])
        for start in range(0, count, run):
            chunk = self.write.value(vector.BroadcastOp(ordered[start], type))
            for i in range(1, run):
                chunk = self.write.value(vector.InsertOp(ordered[start + i], chunk, [i]))
            self._store(self._shifted(first, start, tensor.element), chunk, aligned=True)

    def _is_block(self, tensor: Tensor, time: str, steps: Steps) -> bool:
        """Whether each lane has several neighbouring steps of its row: loaded by row and transposed."""
        count = len(steps.positions)
        contiguous = tensor.strides[time] == 1 and steps.whole
        return contiguous and self.is_vector(tensor.axes) and 1 < count <= self.width and count & (count - 1) == 0

    def _is_strip(self, tensor: Tensor, steps: Steps) -> bool:
        """Whether each of several steps is a vector of neighbours."""
        return self.is_vector(tensor.axes) and not self.is_gathered(tensor) and steps.whole and len(steps.positions) > 1

    def _run(self, tensor: Tensor, time: str, steps: Steps) -> int:
        """Elements of one access along contiguous time, as many as alignment and the count allow; 1 for vectors."""
        if self.width > 1 or tensor.strides[time] != 1 or not steps.whole:
            return 1
        run = min(tensor.align, VECTOR_BYTES) // byte_size(tensor.element)
        while run > 1 and len(steps.positions) % run:
            run //= 2
        return max(run, 1)

    def _shifted(self, address: SSAValue, elements: int, element: Attribute) -> SSAValue:
        return self.advanced(address, self.write.constant(elements), element) if elements else address

    # --- single accesses --------------------------------------------------------------------------------------

    def load_element(self, address: SSAValue, element: Attribute) -> SSAValue:
        """One element (a scalar or a vector), aligned to its size."""
        stored = storage_type(element)
        return self._loaded(self.write.value(llvm.LoadOp(address, stored, alignment=byte_size(element))), element)

    def store_element(self, address: SSAValue, value: SSAValue) -> None:
        self.write.insert(llvm.StoreOp(self._stored(value), address, alignment=byte_size(value.type)))

    def _load(self, address: SSAValue, element: Attribute, count: int, *, aligned: bool = False) -> SSAValue:
        """`count` neighbours, aligned to one of them or to all."""
        type = element if count == 1 else VectorType(element, [count])
        align = byte_size(type if aligned else element)
        return self._loaded(self.write.value(llvm.LoadOp(address, storage_type(type), alignment=align)), element)

    def _store(self, address: SSAValue, value: SSAValue, *, aligned: bool = False) -> None:
        align = byte_size(value.type if aligned else split_type(value.type)[0])
        self.write.insert(llvm.StoreOp(self._stored(value), address, alignment=align))

    def _loaded(self, value: SSAValue, type: Attribute) -> SSAValue:
        """What memory held, as an element (or a vector of elements) of `type`."""
        if split_type(type)[0] != i1:
            return value
        return self.write.is_not_equal(value, self.write.constant(0, i8))

    def _stored(self, value: SSAValue) -> SSAValue:
        if split_type(value.type)[0] != i1:
            return value
        return self.write.value(ExtUIOp.create(operands=[value], result_types=[storage_type(value.type)]))

    def _after_move(self, value: SSAValue, type: Attribute) -> SSAValue:
        if is_half(type):
            return self.write.value(vector.BitcastOp(value, like(value.type, type)))
        return self._loaded(value, type)

    def _before_move(self, value: SSAValue) -> SSAValue:
        if is_half(split_type(value.type)[0]):
            return self.write.value(vector.BitcastOp(value, like(value.type, i16)))
        return self._stored(value)
