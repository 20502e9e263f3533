"""Where the states live from one tile of time to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from scanweaver.transforms.skeleton.memory import Memory, scalar_type


@dataclass(frozen=True)
class Carry:
    """One state's values in a buffer of `element`s, `pitch` apart, this row's first at `row`.

    `sizes` are the state axes and their sizes; where vectors run along `vector_axis`, an element is a vector and stands
    for `width` positions of it.
    """

    buffer: SSAValue
    element: Attribute
    sizes: Mapping[str, int]
    pitch: int = 1
    row: SSAValue | None = None
    vector_axis: str | None = None
    width: int = 1

    def load(self, memory: Memory, positions: Mapping[str, SSAValue]) -> SSAValue:
        if any(isinstance(position.type, VectorType) for position in positions.values()):
            return memory.gather(scalar_type(self.element), lambda lane: self._lane_address(memory, positions, lane))
        return memory.load_element(self._address(memory, positions), self.element)

    def store(self, memory: Memory, positions: Mapping[str, SSAValue], value: SSAValue) -> None:
        memory.store_element(self._address(memory, positions), value)

    def _lane_address(self, memory: Memory, positions: Mapping[str, SSAValue], lane: int) -> SSAValue:
        """The address of one lane's value where lanes have positions of their own."""
        address = self._address(memory, {axis: memory.lane(position, lane) for axis, position in positions.items()})
        if not isinstance(self.element, VectorType):
            return address
        return memory.advanced(address, memory.write.constant(lane), scalar_type(self.element))

    def _address(self, memory: Memory, positions: Mapping[str, SSAValue]) -> SSAValue:
        write = memory.write
        slot: SSAValue | None = None
        for axis, size in self.sizes.items():
            position = positions[axis]
            if axis == self.vector_axis:
                size, position = size // self.width, write.div(position, write.constant(self.width))
            slot = position if slot is None else write.add(write.mul(slot, write.constant(size)), position)
        if slot is not None and self.pitch > 1:
            slot = write.mul(slot, write.constant(self.pitch))
        if self.row is not None:
            slot = self.row if slot is None else write.add(slot, self.row)
        return self.buffer if slot is None else memory.advanced(self.buffer, slot, self.element)


def slots(sizes: Mapping[str, int], vector_axis: str | None, width: int) -> int:
    """How many elements (or vectors) one row's state takes."""
    return prod(size // width if axis == vector_axis else size for axis, size in sizes.items())
