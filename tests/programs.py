"""Random recurrences: a signature and, for each state and output, an expression.

`Program.step` evaluates the expressions on whatever it is given: traced values, or `Checked` tensors, for the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from checked import AXES, Checked, InScanWeaver, InTorch
from torch import Tensor

import scanweaver as sw

# --- expressions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """`kind` is input, old or new (a state), number, a function, where or a reduction; `axes`: what it varies over."""

    kind: str
    args: tuple[Any, ...]
    axes: frozenset[str]

    def __str__(self) -> str:
        if self.kind in ("input", "old", "new"):
            return f"{ {'input': 'x', 'old': 'h', 'new': 'new'}[self.kind] }{self.args[0]}"
        if self.kind == "number":
            return repr(self.args[0])
        return f"{self.kind}({', '.join(map(str, self.args))})"


def evaluate(node: Node, library: Any, inputs: Sequence[Any], old: Sequence[Any], new: Sequence[Any]) -> Any:
    def value(arg: Node) -> Any:
        return evaluate(arg, library, inputs, old, new)

    args = node.args
    match node.kind:
        case "input":
            return inputs[args[0]]
        case "old":
            return old[args[0]]
        case "new":
            return new[args[0]]
        case "number":
            return args[0]
        case "add":
            return value(args[0]) + value(args[1])
        case "sub":
            return value(args[0]) - value(args[1])
        case "mul":
            if any(arg.kind == "mul" for arg in args):
                library.may_regroup([value(factor) for factor in factors(node)])
            return value(args[0]) * value(args[1])
        case "div":
            return value(args[0]) / (library.unary("abs", value(args[1])) + 1.5)
        case "maximum" | "minimum":
            return library.binary(node.kind, value(args[0]), value(args[1]))
        case "where":
            return library.where(value(args[0]), value(args[1]), value(args[2]))
        case "sum" | "max" | "min":
            return library.reduce(node.kind, value(args[0]), args[1])
        case _:
            return library.unary(node.kind, value(args[0]))


def factors(node: Node) -> Iterator[Node]:
    """What a product of products multiplies."""
    if node.kind == "mul":
        for arg in node.args:
            yield from factors(arg)
    else:
        yield node


def binary(kind: str, a: Node, b: Node) -> Node:
    return Node(kind, (a, b), a.axes | b.axes)


def unary(kind: str, a: Node) -> Node:
    return Node(kind, (a,), a.axes)


def number(value: float) -> Node:
    return Node("number", (value,), frozenset())


# --- programs ----------------------------------------------------------------------------------------------------


@dataclass
class Input:
    axes: tuple[str, ...]  # in dimension order, "t" among them or not
    dtype: torch.dtype
    bound: float


@dataclass
class Program:
    sizes: dict[str, int]
    inputs: list[Input]
    states: list[tuple[str, ...]]
    outputs: list[tuple[str, ...]]
    updates: list[Node] = field(default_factory=list)
    values: list[Node] = field(default_factory=list)
    affine: bool = True
    reverse: bool = False

    @property
    def signature(self) -> str:
        def arrays(letter: str, axes: Sequence[Sequence[str]]) -> str:
            return ", ".join(f"{letter}{i}[{' '.join(of)}]" for i, of in enumerate(axes))

        inputs = arrays("x", [x.axes for x in self.inputs])
        return f"{arrays('h', self.states)}; {inputs} -> {arrays('y', self.outputs)}"

    def step(self, library: Any, states: Sequence[Any], inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        new: list[Any] = []
        for update in self.updates:
            new.append(evaluate(update, library, inputs, states, new))
        return new, [evaluate(value, library, inputs, states, new) for value in self.values]

    def recurrence(self) -> Any:
        count = len(self.states)

        def program(*args: Any) -> Any:
            new, outputs = self.step(InScanWeaver(), args[:count], args[count:])
            return tuple(new), tuple(outputs)

        return sw.recurrence(self.signature)(program)

    def __repr__(self) -> str:
        lines = [self.signature, f"sizes {self.sizes}{' reversed' if self.reverse else ''}"]
        lines += [f"x{i}: {x.dtype}" for i, x in enumerate(self.inputs)]
        lines += [f"h{i} = {update}" for i, update in enumerate(self.updates)]
        return "\n  ".join([*lines, *(f"y{i} = {value}" for i, value in enumerate(self.values))])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a failing example."""
        printer.text(repr(self))

    def run(self, tensors: Sequence[Tensor], starts: Sequence[Any], dtype: torch.dtype, unit: float) -> list[Checked]:
        """The loop: outputs (axes, then time) and last states, each in the dimension order of the signature."""
        given = [canonical(x, of.axes) for x, of in zip(tensors, self.inputs, strict=True)]
        steps = self.sizes["t"]
        shape = [self.sizes.get(axis, 1) for axis in AXES]

        def start(axes: tuple[str, ...], value: Any) -> Checked:
            full = [n if axis in axes else 1 for axis, n in zip(AXES, shape, strict=True)]
            if isinstance(value, Tensor):
                value = canonical(value.expand([self.sizes[axis] for axis in axes]), axes)[..., 0].to(dtype)
            else:
                value = torch.tensor(0.0 if value is None else value, dtype=dtype, device=tensors[0].device)
            return Checked(value.expand(full), 0.0, unit)

        states = [start(axes, value) for axes, value in zip(self.states, starts, strict=True)]
        rows: list[list[Checked]] = []
        for t in reversed(range(steps)) if self.reverse else range(steps):
            now = [x[..., t if x.shape[-1] > 1 else 0] for x in given]
            inputs = [x if x.dtype == torch.bool else Checked(x.to(dtype), 0.0, unit) for x in now]
            states, outputs = self.step(InTorch(), states, inputs)
            states = [self._fitted(h, axes) for h, axes in zip(states, self.states, strict=True)]
            rows.append([self._fitted(y, axes) for y, axes in zip(outputs, self.outputs, strict=True)])
        if self.reverse:
            rows.reverse()
        results = [
            self._stacked([row[i] for row in rows], axes, dtype, unit, tensors[0].device)
            for i, axes in enumerate(self.outputs)
        ]
        return [*results, *(self._squeezed(h, axes) for h, axes in zip(states, self.states, strict=True))]

    def _fitted(self, value: Checked, axes: Sequence[str]) -> Checked:
        shape = [self.sizes[axis] if axis in axes else 1 for axis in AXES]
        return Checked(value.x.expand(shape), value.e.expand(shape), value.unit)

    def _squeezed(self, value: Checked, axes: Sequence[str]) -> Checked:
        return Checked(dense(value.x, axes), dense(value.e, axes), value.unit)

    def _stacked(
        self, values: list[Checked], axes: Sequence[str], dtype: torch.dtype, unit: float, device: Any
    ) -> Checked:
        if not values:
            empty = torch.zeros([self.sizes[axis] for axis in axes], dtype=dtype, device=device)
            return Checked(empty, 0.0, unit)
        rest = [axis for axis in axes if axis != "t"]
        at = axes.index("t")
        x = torch.stack([dense(value.x, rest) for value in values], at)
        return Checked(x, torch.stack([dense(value.e, rest) for value in values], at), unit)


def canonical(x: Tensor, axes: Sequence[str]) -> Tensor:
    """As (b, d, n, t), 1 where `axes` lack one."""
    order = [axes.index(axis) for axis in (*AXES, "t") if axis in axes]
    x = x.permute(order)
    for i, axis in enumerate((*AXES, "t")):
        if axis not in axes:
            x = x.unsqueeze(i)
    return x


def dense(x: Tensor, axes: Sequence[str]) -> Tensor:
    """(b, d, n) as `axes`, which are all that it varies over."""
    for i in reversed(range(len(AXES))):
        if AXES[i] not in axes:
            x = x.squeeze(i)
    present = [axis for axis in AXES if axis in axes]
    return x.permute([present.index(axis) for axis in axes])
