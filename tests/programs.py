"""Random recurrences: drawn by hypothesis, run by ScanWeaver, and interpreted in PyTorch with a bound on each error.

A program is a signature and, for each state and output, an expression. `step` evaluates the expressions on whatever it
is given: traced values, or `Checked` tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

import scanweaver as sw

AXES = ("b", "d", "n")


# --- numbers with errors -----------------------------------------------------------------------------------------


class Checked:
    """A tensor over all of AXES (1 where it lacks one) and how far a computation with unit roundoff `unit` may be off.

    First-order running error analysis, as in Higham, Accuracy and Stability of Numerical Algorithms, section 3.3.
    """

    def __init__(self, x: Tensor, e: Tensor | float, unit: float):
        self.x, self.unit = x, unit
        self.e = e if isinstance(e, Tensor) else torch.full_like(x, e)

    def _of(self, other: Any) -> Checked:
        if isinstance(other, Checked):
            return other
        x = torch.tensor(float(other), dtype=self.x.dtype, device=self.x.device)
        return Checked(x, self.unit * abs(float(other)), self.unit)

    def rounded(self, x: Tensor, e: Tensor, ulps: int = 1) -> Checked:
        return Checked(x, e + ulps * self.unit * x.abs(), self.unit)

    def __add__(self, other: Any) -> Checked:
        o = self._of(other)
        return self.rounded(self.x + o.x, self.e + o.e)

    def __sub__(self, other: Any) -> Checked:
        o = self._of(other)
        return self.rounded(self.x - o.x, self.e + o.e)

    def __mul__(self, other: Any) -> Checked:
        o = self._of(other)
        x = self.x * o.x
        # beside the product's own rounding, which a fused multiply-add leaves out
        return self.rounded(x, self.x.abs() * o.e + o.x.abs() * self.e + self.e * o.e)

    def __truediv__(self, other: Any) -> Checked:
        o = self._of(other)
        x = self.x / o.x
        return self.rounded(x, (self.e + x.abs() * o.e) / (o.x.abs() - o.e), 2)

    def unary(self, function: Callable[[Tensor], Tensor]) -> Checked:
        x = function(self.x)
        e = torch.maximum((function(self.x + self.e) - x).abs(), (function(self.x - self.e) - x).abs())
        return self.rounded(x, e, 8)


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": lambda x: x * torch.sigmoid(x),
    "softplus": lambda x: torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs())),
    "relu": torch.relu,
    "abs": torch.abs,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
}
BOUNDED = ("tanh", "sigmoid", "sin", "erf")


class InTorch:
    """The functions of a step on `Checked` tensors."""

    def unary(self, name: str, x: Checked) -> Checked:
        return x.unary(UNARY[name])

    def binary(self, name: str, a: Checked, b: Any) -> Checked:
        b = a._of(b)
        return Checked(getattr(torch, name)(a.x, b.x), torch.maximum(a.e, b.e), a.unit)

    def where(self, c: Tensor, a: Checked, b: Any) -> Checked:
        b = a._of(b)
        return Checked(torch.where(c, a.x, b.x), torch.where(c, a.e, b.e), a.unit)

    def reduce(self, name: str, x: Checked, axes: Sequence[str]) -> Checked:
        dims = [AXES.index(axis) for axis in axes]
        if name == "sum":
            terms = math.prod(x.x.shape[dim] for dim in dims)
            e = x.e.sum(dims, True) + terms * x.unit * x.x.abs().sum(dims, True)
            return Checked(x.x.sum(dims, True), e, x.unit)
        return Checked(getattr(torch, f"a{name}")(x.x, dims, True), torch.amax(x.e, dims, True), x.unit)


class InScanWeaver:
    """The same functions on traced values."""

    def unary(self, name: str, x: Any) -> Any:
        return abs(x) if name == "abs" else getattr(sw, name)(x)

    def binary(self, name: str, a: Any, b: Any) -> Any:
        return getattr(sw, name)(a, b)

    def where(self, c: Any, a: Any, b: Any) -> Any:
        return sw.where(c, a, b)

    def reduce(self, name: str, x: Any, axes: Sequence[str]) -> Any:
        return getattr(sw, name)(x, " ".join(axes))


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


# --- drawing -----------------------------------------------------------------------------------------------------

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Drawing:
    """One program in the making."""

    def __init__(self, draw: Any):
        self.draw = draw

    def some_axes(self, among: Sequence[str], least: int = 0) -> tuple[str, ...]:
        order = self.draw(st.permutations(among))
        return tuple(order[: self.draw(st.integers(min(least, len(among)), len(among)))])

    def program(self, affine: bool) -> Program:
        draw = self.draw
        sizes = {axis: draw(st.integers(1, most)) for axis, most in zip(AXES, (5, 9, 6), strict=True)}
        sizes["t"] = draw(st.sampled_from((0, 1, 2, 7, 8, 9, 16, 33, 40)))
        inputs = [self.input(time=True), *(self.input() for _ in range(draw(st.integers(0, 2))))]
        inputs.append(Input(inputs[0].axes if draw(st.booleans()) else self.timed(AXES), torch.bool, 1))
        known = sorted({axis for x in inputs for axis in x.axes} - {"t"})
        states = [self.some_axes(known) for _ in range(draw(st.integers(1, 3)))]
        outputs = [self.timed(known) for _ in range(draw(st.integers(1, 2)))]
        used = set(known) | {"t"}
        self.made = Program({a: n for a, n in sizes.items() if a in used}, inputs, states, outputs)
        self.made.affine, self.made.reverse = affine, draw(st.booleans())
        together = affine and len({frozenset(axes) for axes in states}) == 1 and draw(st.booleans())
        for i in range(len(states)):
            self.made.updates.append(self.update(i, together))
        if not affine:
            last = len(states) - 1  # at least one that no algebra takes
            self.made.updates[last] = unary("tanh", binary("add", self.made.updates[last], self.state("old", last)))
        for axes in outputs:
            leaves = [self.state(kind, i) for i in range(len(states)) for kind in ("old", "new")]
            value = binary(draw(st.sampled_from(("add", "mul"))), draw(st.sampled_from(leaves)), self.tree(2, leaves))
            self.made.values.append(self.within(value, axes))
        return self.made

    def input(self, time: bool = False) -> Input:
        axes = self.timed(AXES) if time or self.draw(st.booleans()) else self.some_axes(AXES)
        return Input(axes, self.draw(st.sampled_from(FLOATS)), self.draw(st.sampled_from((0.9, 3.0))))

    def timed(self, among: Sequence[str]) -> tuple[str, ...]:
        axes = list(self.some_axes(among))
        axes.insert(self.draw(st.integers(0, len(axes))), "t")
        return tuple(axes)

    def state(self, kind: str, i: int) -> Node:
        return Node(kind, (i,), frozenset(self.made.states[i]) if kind == "old" else self.made.updates[i].axes)

    def inputs_as_leaves(self) -> list[Node]:
        return [
            Node("input", (i,), frozenset(x.axes) - {"t"})
            for i, x in enumerate(self.made.inputs)
            if x.dtype != torch.bool
        ]

    def condition(self) -> Node:
        i = next(i for i, x in enumerate(self.made.inputs) if x.dtype == torch.bool)
        return Node("input", (i,), frozenset(self.made.inputs[i].axes) - {"t"})

    def tree(self, depth: int, states: Sequence[Node] = ()) -> Node:
        """An expression over the inputs and the given states."""
        draw = self.draw
        leaves = [*self.inputs_as_leaves(), *states]
        kind = draw(st.sampled_from(("leaf", "add", "sub", "mul", "div", "maximum", "minimum", "where", "unary")))
        if depth == 0 or kind == "leaf":
            return draw(st.sampled_from(leaves))
        a = self.tree(depth - 1, states)
        if kind == "unary":
            return unary(draw(st.sampled_from(sorted(UNARY))), a)
        b = (
            number(draw(st.sampled_from((0.0, 0.5, -2.0, 1.0))))
            if draw(st.booleans())
            else self.tree(depth - 1, states)
        )
        if kind == "where":
            c = self.condition()
            return Node("where", (c, a, b), a.axes | b.axes | c.axes)
        if kind == "div" and b.kind == "number":
            kind = "mul"
        return binary(kind, a, b)

    def within(self, value: Node, axes: Sequence[str]) -> Node:
        """The value, reduced over the axes that it has too many."""
        extra = tuple(sorted(value.axes - set(axes)))
        if not extra:
            return value
        return Node(self.draw(st.sampled_from(("sum", "max", "min"))), (value, extra), value.axes & set(axes))

    def update(self, i: int, together: bool) -> Node:
        """p h + q, with or without a reset; with linear terms of all states where they go `together`."""
        draw, axes = self.draw, self.made.states[i]
        earlier = [] if together else [self.state(kind, j) for j in range(i) for kind in ("old", "new")]

        def bounded() -> Node:
            return unary(draw(st.sampled_from(BOUNDED)), self.within(self.tree(1, earlier), axes))

        def rest() -> Node:
            return self.within(self.tree(2, earlier), axes)

        if draw(st.integers(0, 7)) == 0 and not together:
            return rest()  # a delay, or no memory at all
        value = binary("mul", bounded(), self.state("old", i))
        if together:
            for j in range(len(self.made.states)):
                if j != i and draw(st.booleans()):
                    value = binary("sub", value, binary("mul", self.state("old", j), number(0.25)))
        value = binary("add", value, rest())
        c = self.condition()
        if c.axes <= set(axes) and draw(st.booleans()):
            value = Node("where", (c, value, rest()), value.axes | c.axes)
        return value


@st.composite
def programs(draw: Any, affine: bool) -> Program:
    return Drawing(draw).program(affine)


# --- their tensors -----------------------------------------------------------------------------------------------

SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e30, -1e30, 1e-30, 1e-41)


@dataclass(frozen=True)
class Memory:
    """How an input lies in memory: the nesting of its dimensions, steps between elements, which it repeats."""

    order: int
    steps: int
    offset: int
    repeated: int


memories = st.builds(
    Memory, st.integers(0, 23), st.sampled_from((1, 1, 1, 2, 3)), st.integers(0, 3), st.integers(0, 31)
)


def tensor(
    of: Input, sizes: Mapping[str, int], memory: Memory, generator: torch.Generator, special: bool, device: str
) -> Tensor:
    shape = [sizes[axis] for axis in of.axes]
    rank = len(shape)
    order = list(range(rank))
    code = memory.order
    for i in range(rank):
        j = i + code % (rank - i)
        code //= rank - i
        order[i], order[j] = order[j], order[i]
    repeats = memory.repeated in range(rank)
    laid = [1 if repeats and dim == memory.repeated else shape[dim] for dim in order]
    count = math.prod(laid)
    x = of.bound * (2 * torch.rand(count, generator=generator) - 1)
    if special:
        kinds = torch.randint(0, 6 * len(SPECIAL), (count,), generator=generator)
        for i, value in enumerate(SPECIAL):
            x[kinds == i] = value
    x = x > -0.3 if of.dtype == torch.bool else x.to(of.dtype)
    parent = torch.full((memory.offset + count * memory.steps,), math.nan).to(of.dtype)
    place = parent[memory.offset :: memory.steps][:count]
    place.copy_(x)
    parent = parent.to(device)
    strides = torch.empty(laid, device="meta").stride()
    laid_strides = [
        0 if repeats and d == memory.repeated else s * memory.steps for d, s in zip(order, strides, strict=True)
    ]
    back = [order.index(dim) for dim in range(rank)]
    return parent.as_strided(shape, [laid_strides[i] for i in back], memory.offset)
