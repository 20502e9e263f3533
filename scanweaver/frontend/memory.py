"""Strides: which axis of a tensor is contiguous, how it is aligned, and how the outputs are laid out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

MAX_ALIGN = 16
"""Bytes of the widest access; more alignment than that serves nothing."""


def contiguous_axis(axes: Sequence[str], sizes: Mapping[str, int], strides: Mapping[str, int], time: str) -> str:
    """The axis whose neighbours are neighbours in memory; "" where there is none.

    Time comes first among several. An axis of at most one element has no neighbours: it serves where no other does.
    """
    found = [axis for axis in axes if strides[axis] == 1 and sizes[axis] > 1]
    found = found or [axis for axis in axes if sizes[axis] <= 1]
    return time if time in found else found[0] if found else ""


def alignment(
    contiguous: str, sizes: Mapping[str, int], strides: Mapping[str, int], itemsize: int, address: int
) -> int:
    """MAX_ALIGN where the base and the start of every run along `contiguous` are so aligned, else one element's bytes.

    Nothing in between: each alignment is a kernel of its own, and the halves gain little.
    """
    if not contiguous:
        return itemsize
    offsets = (stride * itemsize for axis, stride in strides.items() if axis != contiguous and sizes[axis] > 1)
    aligned = math.gcd(MAX_ALIGN, address, *offsets) == MAX_ALIGN
    return MAX_ALIGN if aligned else itemsize


def may_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two positions may be one element: a dimension that does not step over all that the shorter steps span."""
    span = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if stride < span:
                return True
            span += (size - 1) * stride
    return False


def dense_strides(axes: Sequence[str], sizes: Mapping[str, int], nesting: Mapping[str, int]) -> tuple[int, ...]:
    """Strides of a new dense tensor with dimensions `axes`, nested as in a tensor with the strides `nesting`.

    Only the axes that that tensor really walks (more than one element, a stride that is not 0) give an order; they
    change places among themselves, the others stay where they stand.
    """
    ordered = sorted(
        (axis for axis, stride in nesting.items() if axis in axes and sizes[axis] > 1 and stride != 0),
        key=lambda axis: -nesting[axis],
    )
    places = iter(ordered)
    nested = [next(places) if axis in ordered else axis for axis in axes]
    strides: dict[str, int] = {}
    step = 1
    for axis in reversed(nested):
        strides[axis] = step
        step *= max(sizes[axis], 1)
    return tuple(strides[axis] for axis in axes)
