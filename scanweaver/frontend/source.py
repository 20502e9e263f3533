"""Where a recurrence comes from: a Python step, traced for every specialization, or text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from scanweaver.frontend.signature import Signature
from scanweaver.frontend.specialization import Specialization

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class Source(Protocol):
    """Gives the module of a recurrence for what a call decides."""

    @property
    def name(self) -> str: ...

    @property
    def signature(self) -> Signature: ...

    @property
    def fixed_sizes(self) -> Mapping[str, int]:
        """Axes that have this size at every call."""
        ...

    @property
    def fixed_dtypes(self) -> Mapping[str, Any]:
        """Inputs that have this dtype (or, as numbers, Python type) at every call."""
        ...

    @property
    def required_starts(self) -> tuple[str, ...]:
        """The states that start only where `init` says."""
        ...

    def module(self, specialization: Specialization) -> ModuleOp:
        """A module with one function, whose arguments are `specialization.operands`: see `trace_step`."""
        ...


@dataclass(frozen=True)
class PythonStep:
    """A step function and its signature."""

    function: Callable[..., Any]
    signature: Signature
    fixed_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    fixed_dtypes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    required_starts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.function.__name__

    def module(self, specialization: Specialization) -> ModuleOp:
        from scanweaver.frontend.trace import trace_step

        return trace_step(self.function, self.signature, specialization)
