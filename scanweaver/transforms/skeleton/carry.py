"""Where the states live from one tile of time to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir import Attribute, SSAValue

from scanweaver.dialects.arith import is_vector, split_type
from scanweaver.transforms.skeleton.memory import Memory
from scanweaver.transforms.skeleton.scopes import Writer


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
        slot = self._slot(memory.write, positions)
        if slot is None or not is_vector(slot.type):
            return memory.load_element(self._address(memory, slot), self.element)
        if is_vector(self.element):  # each lane has a slot of its own
            write = memory.write
            slot = write.add(write.mul(slot, write.constant(memory.width)), memory.lane_numbers())
        return memory.gather_at(self.buffer, slot, split_type(self.element)[0])

    def store(self, memory: Memory, positions: Mapping[str, SSAValue], value: SSAValue) -> None:
        memory.store_element(self._address(memory, self._slot(memory.write, positions)), value)

    def _slot(self, write: Writer, positions: Mapping[str, SSAValue]) -> SSAValue | None:
        """Which element of the buffer; None: the first."""
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
        return slot

    def _address(self, memory: Memory, slot: SSAValue | None) -> SSAValue:
        return self.buffer if slot is None else memory.advanced(self.buffer, slot, self.element)


def slots(sizes: Mapping[str, int], vector_axis: str | None, width: int) -> int:
    """How many elements (or vectors) one row's state takes."""
    return prod(size // width if axis == vector_axis else size for axis, size in sizes.items())
