"""What a call decides about a kernel, and nothing more: two calls with equal specializations run the same one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from scanweaver.frontend.dtypes import kind_of, real_dtype

PARTS = ("re", "im")
"""What the two parts of a complex array are called: `u_re`, `u_im`."""


@dataclass(frozen=True)
class Given:
    """A tensor or number given at the call: its name, axes in dimension order and short dtype.

    `scalar`: a number, passed by value; otherwise a tensor (a 0-d one where `axes` is empty).
    """

    name: str
    axes: tuple[str, ...]
    dtype: str
    scalar: bool = False

    @property
    def parts(self) -> tuple[Given, ...]:
        """What a kernel takes for it: itself, or the real and the imaginary part of what is complex."""
        if kind_of(self.dtype) != "complex":
            return (self,)
        dtype = real_dtype(self.dtype)
        return tuple(replace(self, name=f"{self.name}_{part}", dtype=dtype) for part in PARTS)


@dataclass(frozen=True)
class Specialization:
    """The given inputs in the signature's order, how the states start, constants and flags.

    `leading` names the axes that `...` stands for. `inits` has one entry a state; None starts it at its signature's
    number. `constants` are (name, type, value): 1, 1.0 and True differ. `sizes` fixes the axes that the step reduces,
    renames or takes from; empty before the step was traced.

    In a single step (`in_place.py`) states are advanced where they lie: rows along the axis of `slots` find theirs by
    number; the starts of states `copied` are copies by row, for rows read them that do not write them.
    """

    inputs: tuple[Given, ...]
    inits: tuple[Given | None, ...]
    leading: tuple[str, ...] = ()
    constants: tuple[tuple[str, type[Any], Any], ...] = ()
    return_last: bool = False
    reverse: bool = False
    sizes: tuple[tuple[str, int], ...] = ()
    slots: Given | None = None
    copied: tuple[int, ...] = ()

    def with_sizes(self, sizes: dict[str, int]) -> Specialization:
        """The same with the sizes of the given axes fixed."""
        return replace(self, sizes=tuple(sizes.items()))

    @property
    def pools(self) -> tuple[Given, ...]:
        """What copied states go into, given beside their starts."""
        copied = (init for i, init in enumerate(self.inits) if init is not None and i in self.copied)
        return tuple(part for init in copied for part in init.parts)

    @property
    def operands(self) -> tuple[Given, ...]:
        """The kernel's operands in order: the starts that are given, then the inputs; two for what is complex."""
        given = (*(init for init in self.inits if init is not None), *self.inputs)
        return tuple(part for one in given for part in one.parts)
