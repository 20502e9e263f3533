"""Tensors as a kernel sees them: a pointer, strides, and loads and stores of one element or of K steps.

`vector` is the axis that vector lanes run along (None: scalars). An element of a tensor that has that axis is a
vector of `width` neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import llvm, vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i1, i8, i64
from xdsl.ir import Attribute, SSAValue

from scanweaver.dialects.arith import CmpiOp, ExtUIOp, split_type
from scanweaver.transforms.skeleton.scopes import Writer

VECTOR_BYTES = 16
"""The widest access of one GPU lane."""


def scalar_type(type: Attribute) -> Attribute:
    """`vector<16xf32>` -> `f32`; a scalar's is its own."""
    return split_type(type)[0]


def storage_type(type: Attribute) -> Attribute:
    """The type in memory: a bool is a byte."""
    if isinstance(type, VectorType):
        return VectorType(storage_type(scalar_type(type)), type.get_shape())
    return i8 if type == i1 else type


def byte_size(type: Attribute) -> int:
    """Bytes of one element in memory."""
    stored = storage_type(type)
    if isinstance(stored, VectorType):
        return prod(stored.get_shape()) * byte_size(scalar_type(stored))
    width = getattr(stored, "bitwidth", None)
    assert isinstance(width, int), f"no size for {type}"
    return width // 8


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
    """Loads and stores through a writer."""

    def __init__(self, write: Writer, vector_axis: str | None, width: int):
        self.write = write
        self.axis = vector_axis
        self.width = width

    def is_vector(self, axes: Sequence[str]) -> bool:
        return self.width > 1 and self.axis in axes

    def lanes(self, type: Attribute, axes: Sequence[str]) -> Attribute:
        """The type of a value with these axes."""
        return VectorType(type, [self.width]) if self.is_vector(axes) else type

    # --- addresses --------------------------------------------------------------------------------------------

    def address(self, tensor: Tensor, positions: Mapping[str, SSAValue], base: SSAValue | None = None) -> SSAValue:
        offset: SSAValue | None = None
        for axis, position in positions.items():
            stride = tensor.strides[axis]
            part = position if isinstance(stride, int) else self.write.mul(position, stride)
            offset = part if offset is None else self.write.add(offset, part)
        base = tensor.pointer if base is None else base
        return base if offset is None else self.advanced(base, offset, tensor.element)

    def advanced(self, base: SSAValue, offset: SSAValue, element: Attribute) -> SSAValue:
        """An address `offset` elements further."""
        assert isinstance(base.type, llvm.LLVMPointerType)
        return self.write.value(
            llvm.GEPOp(base, [llvm.GEP_USE_SSA_VAL], storage_type(element), [offset], result_type=base.type)
        )

    # --- one position -----------------------------------------------------------------------------------------

    def load(self, tensor: Tensor, positions: Mapping[str, SSAValue]) -> SSAValue:
        if any(isinstance(position.type, VectorType) for position in positions.values()):
            return self.gather(tensor.element, lambda lane: self._lane_address(tensor, positions, lane))
        address = self.address(tensor, positions)
        if not self.is_vector(tensor.axes):
            return self._load(address, tensor.element, 1)
        if tensor.strides[self.axis or ""] == 1:
            return self._load(address, tensor.element, self.width)
        return self.gather(tensor.element, lambda lane: self._neighbour(tensor, address, lane))

    def store(self, tensor: Tensor, positions: Mapping[str, SSAValue], value: SSAValue) -> None:
        address = self.address(tensor, positions)
        if not self.is_vector(tensor.axes) or tensor.strides[self.axis or ""] == 1:
            self._store(address, value)
            return
        for lane in range(self.width):
            self._store(self._neighbour(tensor, address, lane), self.lane(value, lane))

    def _neighbour(self, tensor: Tensor, address: SSAValue, lane: int) -> SSAValue:
        """The address of a lane's element, from that of the first lane's."""
        stride = tensor.strides[self.axis or ""]
        if lane == 0:
            return address
        offset = self.write.constant(lane)
        return self.advanced(address, offset if stride == 1 else self.write.mul(offset, stride), tensor.element)

    def _lane_address(self, tensor: Tensor, positions: Mapping[str, SSAValue], lane: int) -> SSAValue:
        """The address of a lane's element where lanes have positions of their own."""
        first = self.address(tensor, {axis: self.lane(position, lane) for axis, position in positions.items()})
        return self._neighbour(tensor, first, lane) if self.is_vector(tensor.axes) else first

    def lane(self, value: SSAValue, lane: int) -> SSAValue:
        """One lane of a vector; a scalar is the same in all."""
        if not isinstance(value.type, VectorType):
            return value
        return self.write.value(vector.ExtractOp(value, [lane], scalar_type(value.type)))

    def gather(self, element: Attribute, address: Callable[[int], SSAValue]) -> SSAValue:
        """A vector of elements that each lane has an address of."""
        result: SSAValue | None = None
        for lane in range(self.width):
            scalar = self._load(address(lane), element, 1)
            if result is None:
                result = self.write.value(vector.BroadcastOp(scalar, VectorType(element, [self.width])))
            else:
                result = self.write.value(vector.InsertOp(scalar, result, [lane]))
        assert result is not None
        return result

    # --- K steps of time --------------------------------------------------------------------------------------

    def load_steps(self, tensor: Tensor, positions: Mapping[str, SSAValue], time: str, steps: Steps) -> list[SSAValue]:
        """One value per step, in order of time."""
        count = len(steps.positions)
        contiguous = tensor.strides[time] == 1 and steps.whole
        if contiguous and self.is_vector(tensor.axes) and count == self.width:
            first = self.address(tensor, {**positions, time: steps.first})
            rows = [
                self._load(self._neighbour(tensor, first, lane), tensor.element, count) for lane in range(self.width)
            ]
            return steps.ordered(self._transposed(rows))
        run = self._run(tensor, count) if contiguous and self.width == 1 else 1
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
        contiguous = tensor.strides[time] == 1 and steps.whole
        if contiguous and self.is_vector(tensor.axes) and count == self.width:
            first = self.address(tensor, {**positions, time: steps.first})
            for lane, row in enumerate(self._transposed(steps.ordered(values))):
                self._store(self._neighbour(tensor, first, lane), row)
            return
        run = self._run(tensor, count) if contiguous and self.width == 1 else 1
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

    def _run(self, tensor: Tensor, count: int) -> int:
        """Elements of one access along contiguous time: as many as alignment and `count` allow."""
        run = min(tensor.align, VECTOR_BYTES) // byte_size(tensor.element)
        while run > 1 and count % run:
            run //= 2
        return max(run, 1)

    def _shifted(self, address: SSAValue, elements: int, element: Attribute) -> SSAValue:
        return self.advanced(address, self.write.constant(elements), element) if elements else address

    def _transposed(self, rows: Sequence[SSAValue]) -> list[SSAValue]:
        """The transpose of a square of vectors: log2(width) rounds that exchange halves of ever other pairs."""
        size = len(rows)
        values = list(rows)
        distance = 1
        while distance < size:
            for i in range(size):
                if i & distance:
                    continue
                low, high = values[i], values[i | distance]
                take_low = [c if not c & distance else size + (c ^ distance) for c in range(size)]
                take_high = [c ^ distance if not c & distance else size + c for c in range(size)]
                values[i] = self._shuffled(low, high, take_low)
                values[i | distance] = self._shuffled(low, high, take_high)
            distance *= 2
        return values

    def _shuffled(self, a: SSAValue, b: SSAValue, mask: Sequence[int]) -> SSAValue:
        assert isinstance(a.type, VectorType)
        return self.write.value(vector.ShuffleOp(a, b, DenseArrayBase.from_list(i64, list(mask)), result_type=a.type))

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
        return self._loaded(self.write.value(llvm.LoadOp(address, storage_type(type), alignment=align)), type)

    def _store(self, address: SSAValue, value: SSAValue, *, aligned: bool = False) -> None:
        align = byte_size(value.type if aligned else scalar_type(value.type))
        self.write.insert(llvm.StoreOp(self._stored(value), address, alignment=align))

    def _loaded(self, value: SSAValue, type: Attribute) -> SSAValue:
        if scalar_type(type) != i1:
            return value
        zero = self.write.constant(0, i8)
        if isinstance(value.type, VectorType):
            zero = self.write.value(vector.BroadcastOp(zero, value.type))
        return self.write.value(CmpiOp(value, zero, "ne"))

    def _stored(self, value: SSAValue) -> SSAValue:
        if scalar_type(value.type) != i1:
            return value
        return self.write.value(ExtUIOp(value, storage_type(value.type)))
