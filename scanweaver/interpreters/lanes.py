"""Arrays with named axes: what a value of a body is while it is interpreted, for all lanes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Lanes:
    """`data[i, j, …]` at positions i, j, … of `axes`; the same at every position of any other axis."""

    data: Array
    axes: tuple[str, ...]

    def along(self, axes: Sequence[str]) -> Array:
        """The data with exactly these dimensions, of size 1 where the value lacks the axis."""
        missing = set(self.axes) - set(axes)
        if missing:
            raise ValueError(f"a value over {self.axes} has no place for axis '{min(missing)}' in {tuple(axes)}")
        own = [axis for axis in axes if axis in self.axes]
        data = self.data.transpose([self.axes.index(axis) for axis in own])
        return np.expand_dims(data, tuple(i for i, axis in enumerate(axes) if axis not in self.axes))

    def spread(self, sizes: Mapping[str, int]) -> Lanes:
        """The same value over all axes of `sizes`, in their order: a read-only view."""
        return Lanes(np.broadcast_to(self.along(tuple(sizes)), tuple(sizes.values())), tuple(sizes))

    def at(self, axis: str, where: int | slice) -> Lanes:
        """One position of an axis (which is then gone) or a slice of it."""
        if axis not in self.axes:
            return self
        dim = self.axes.index(axis)
        data = self.data[(slice(None),) * dim + (where,)]
        return Lanes(data, self.axes if isinstance(where, slice) else self.axes[:dim] + self.axes[dim + 1 :])

    def flipped(self, axis: str) -> Lanes:
        return self.at(axis, slice(None, None, -1))


def align(values: Sequence[Lanes]) -> tuple[tuple[str, ...], list[Array]]:
    """The union of the values' axes, and their data over it, ready to broadcast."""
    axes = tuple(dict.fromkeys(axis for value in values for axis in value.axes))
    return axes, [value.along(axes) for value in values]
