"""Programs and their tensors, drawn by hypothesis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from checked import AXES, BOUNDED, UNARY
from hypothesis import strategies as st
from programs import Input, Node, Program, binary, number, unary
from torch import Tensor

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
