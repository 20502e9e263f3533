"""Rows that keep their states in slots of a pool: which elements they read and write."""

from __future__ import annotations

from typing import Any

import numpy as np

from scanweaver.interpreters.lanes import Array, Lanes


class Pool:
    """The slots of rows along `axis`; a row whose slot is negative has none."""

    def __init__(self, axis: str, slots: Any):
        self.axis = axis
        self.slots: Array = np.asarray(slots)
        self.rows = self.slots >= 0

    def read(self, pool: Lanes) -> Lanes:
        """Each row's element; 0 for a row without a slot."""
        dim = pool.axes.index(self.axis)
        data = np.moveaxis(pool.data, dim, 0)
        found = np.zeros((len(self.slots), *data.shape[1:]), data.dtype)
        found[self.rows] = data[self.slots[self.rows]]
        return Lanes(np.moveaxis(found, 0, dim), pool.axes)

    def written(self, pool: Lanes, value: Array) -> Array:
        """The pool with each row's element of `value` in its slot."""
        dim = pool.axes.index(self.axis)
        np.moveaxis(pool.data, dim, 0)[self.slots[self.rows]] = np.moveaxis(value, dim, 0)[self.rows]
        return pool.data

    def cleared(self, value: Lanes) -> Lanes:
        """`value` with 0 in the rows without a slot."""
        axes = (*value.axes, *(axis for axis in (self.axis,) if axis not in value.axes))
        rows = Lanes(self.rows, (self.axis,)).along(axes)
        return Lanes(np.where(rows, value.along(axes), np.zeros((), value.data.dtype)), axes)
