"""A call that is described instead of made: dtypes, sizes and constants, and tensors without memory in between."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import torch

from scanweaver.errors import SignatureError
from scanweaver.frontend.binding import Binder, Binding
from scanweaver.frontend.dtypes import SHORT, short_name
from scanweaver.frontend.parameters import REQUIRED, Parameters
from scanweaver.frontend.plan import Planner
from scanweaver.frontend.resolution import torch_dtype
from scanweaver.frontend.signature import Array, Signature

DEFAULT_SIZE = 16
"""Of an axis that is reduced, renamed or taken from, where only an explanation is asked for."""


_MOST_DIMENSIONS = 64
"""Of a tensor of PyTorch."""


@dataclass(frozen=True)
class Request:
    """What a call decides. `dtypes`: by input, or one for all that must be given; torch dtypes or their names, Python's
    float, int or bool for a scalar input that is given as a number. `leading`: how many axes `...` stands for.
    `assume`: what is not said is float32, of size DEFAULT_SIZE, and given, instead of refused."""

    dtypes: Any = None
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    leading: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    assume: bool = False


class Requested:
    """Binds a request to a recurrence: the bindings of a call with starts and of one without.

    Raises SignatureError for what is missing, unknown or does not fit the signature, naming it.
    """

    def __init__(self, binder: Binder, planner: Planner, parameters: Parameters, request: Request):
        self.binder = binder
        self.planner = planner
        self.parameters = parameters
        self.request = request
        self.name = binder.name
        self.signature: Signature = binder.signature
        self.sizes = {**planner.source.fixed_sizes}
        self.inputs = self._inputs()
        self._learn_sizes()

    def binding(self, *, starts: bool, **options: Any) -> Binding:
        """`starts`: every state's start is given, as a tensor with all its axes."""
        arguments = {name: self._argument(name, dtype) for name, dtype in self.inputs.items()}
        if starts:
            arguments["init"] = tuple(map(self._start, self.signature.states))
        return self.binder.bind((), {**arguments, **self.request.constants, **options})[0]

    @property
    def can_be_fresh(self) -> bool:
        """Whether sizes and starts of all states are known without `init`."""
        known = {axis for name in self.inputs for axis in self._array(name).axes}
        states = (axis for state in self.signature.states for axis in state.axes)
        return all(axis in known for axis in states) and not self.planner.source.required_starts

    # --- inputs -----------------------------------------------------------------------------------------------

    def _inputs(self) -> dict[str, Any]:
        """The inputs that are given, with their dtypes."""
        names = [array.name for array in self.signature.inputs]
        fixed = self.planner.source.fixed_dtypes
        asked = self.request.dtypes
        by_name = cast("Mapping[str, Any]", asked if isinstance(asked, Mapping) else {})
        for name, dtype in by_name.items():
            if name not in names:
                self._refuse_unknown("dtypes", name, names)
            self._check_dtype(name, dtype)
        found: dict[str, Any] = {}
        for name, default in zip(names, self.parameters.defaults, strict=True):
            if name in by_name:
                found[name] = by_name[name]
            elif name in fixed:
                found[name] = fixed[name]
            elif default is not REQUIRED and default is not None:
                found[name] = type(default)
            elif asked is not None and not isinstance(asked, Mapping) and (default is REQUIRED or self.request.assume):
                found[name] = asked
            elif self.request.assume:
                found[name] = torch.float32
            elif default is REQUIRED:
                example = f'dtypes={{"{name}": torch.float32, …}}'
                raise SignatureError(f"{self.name}: expected the dtype of input `{name}`, as in {example}, got nothing")
        for name, dtype in found.items():
            self._check_dtype(name, dtype)
        return found

    def _check_dtype(self, name: str, dtype: Any) -> None:
        array = self._array(name)
        if short_name(dtype) is None:
            known = ", ".join(SHORT)
            raise SignatureError(f"dtypes of {self.name}, input `{name}`: expected one of {known}, got {dtype!r}")
        if isinstance(dtype, type) and (array.axes or array.ellipsis):
            raise SignatureError(
                f"dtypes of {self.name}, input `{name}`: Python's {dtype.__name__} is for a scalar input, "
                f"`{name}[]`; expected a dtype of `{array}`, such as torch.float32"
            )

    def _argument(self, name: str, dtype: Any) -> Any:
        if isinstance(dtype, type):
            default = self.parameters.defaults[[array.name for array in self.signature.inputs].index(name)]
            return default if isinstance(default, dtype) else dtype(0)  # pyright: ignore[reportUnknownVariableType]
        return self._empty(self._array(name), torch_dtype(short_name(dtype) or ""))

    def _start(self, state: Array) -> torch.Tensor:
        return self._empty(state, torch_dtype(SHORT[state.dtype or "float32"]))

    def _empty(self, array: Array, dtype: torch.dtype) -> torch.Tensor:
        leading = (1,) * self._leading if array.ellipsis else ()
        shape = (*leading, *(self.sizes.get(axis, 1) for axis in array.axes))
        if math.prod(shape) * dtype.itemsize >= 1 << 63:
            raise SignatureError(f"sizes of {self.name}: `{array}` of shape {shape} has more bytes than 64 bits count")
        return torch.empty(shape, dtype=dtype, device="meta")

    @property
    def _leading(self) -> int:
        leading = self.request.leading
        if leading is not None:
            if type(leading) is not int or not 0 <= leading <= _MOST_DIMENSIONS:
                raise SignatureError(f"leading of {self.name}: expected 0 to {_MOST_DIMENSIONS} axes, got {leading!r}")
            return leading
        if self.request.assume:
            return 1
        raise SignatureError(f"{self.name}: expected how many axes `...` stands for, as in leading=2, got nothing")

    def _array(self, name: str) -> Array:
        return next(array for array in self.signature.inputs if array.name == name)

    # --- sizes ------------------------------------------------------------------------------------------------

    def _learn_sizes(self) -> None:
        given = self.request.sizes
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SignatureError(f'sizes of {self.name}: expected sizes by axis, as in {{"n": 16}}, got {given!r}')
        for axis, size in given.items():
            if axis not in self.signature.axes:
                self._refuse_unknown("sizes", axis, self.signature.axes)
            if type(size) is not int or size < 1:
                raise SignatureError(f"sizes of {self.name}, axis `{axis}`: expected a positive integer, got {size!r}")
        self.sizes |= given
        touched = self.planner.touched(self.binding(starts=not self.can_be_fresh))
        for axis in touched:
            if axis not in self.sizes and not self.request.assume:
                raise SignatureError(
                    f"{self.name}: expected the size of axis `{axis}`, which the step reduces, renames or takes from, "
                    f'as in sizes={{"{axis}": 16}}, got nothing'
                )
            self.sizes.setdefault(axis, DEFAULT_SIZE)
        for axis in given:
            if axis not in touched:
                fixed = f"the sizes of {', '.join(touched)} are compiled in" if touched else "none is compiled in"
                raise SignatureError(f"sizes of {self.name}: axis `{axis}` takes any size at the call; {fixed}")

    def _refuse_unknown(self, what: str, name: str, known: Any) -> NoReturn:
        near = difflib.get_close_matches(str(name), list(known), 1, 0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"expected some of {', '.join(known)}"
        raise SignatureError(f"{what} of {self.name}: got `{name}`: {hint}")
