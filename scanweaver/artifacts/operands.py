"""What an artifact's kernel takes, and what a call gives for it: a tensor, a number, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from scanweaver.artifacts.contract import Contract
from scanweaver.frontend.binding import ANYWHERE, Binding, Layout
from scanweaver.frontend.launching import Plan
from scanweaver.frontend.resolution import torch_dtype
from scanweaver.frontend.specialization import Given


@dataclass(frozen=True)
class Part:
    """One operand of a kernel: an array, or the real or imaginary part of a complex one.

    `index`: its place among a call's values; None where the call gives nothing, and it is the number `start`. `filled`:
    the dtype of the tensor of one element that a number becomes where the kernel wants a tensor.
    """

    index: int | None
    start: float
    filled: torch.dtype | None
    strides: dict[str, int]
    layout: Layout


def bound_parts(given: Given, binding: Binding, contract: Contract) -> list[Part]:
    """The parts of an operand of the contract, in a call. A real array or number serves for a complex one."""
    place, call = _in_call(given.name, binding)
    found: list[Part] = []
    for k, part in enumerate(given.parts):
        index = place + k if call is not None and k < len(call.parts) else None
        is_tensor = index is not None and call is not None and not call.scalar
        found.append(
            Part(
                index,
                _start(given.name, contract) if call is None and k == 0 else 0.0,
                None if given.scalar or is_tensor else torch_dtype(part.dtype),
                {axis: binding.strides[index].get(axis, 0) if index is not None else 0 for axis in given.axes},
                binding.layouts[index] if index is not None and is_tensor else ANYWHERE,
            )
        )
    return found


def _in_call(name: str, binding: Binding) -> tuple[int, Given | None]:
    """The first place of an array among a call's values, and what it is there."""
    place = 0
    special = binding.specialization
    for call in (*(init for init in special.inits if init is not None), *special.inputs):
        if call.name == name:
            return place, call
        place += len(call.parts)
    return place, None


def _start(name: str, contract: Contract) -> float:
    """The number that the signature starts a state at."""
    return next(state.start for state in contract.signature.states if state.name == name) or 0.0


class Filling:
    """A plan whose kernel wants tensors where the call gives numbers, or nothing."""

    def __init__(self, plan: Plan, parts: Sequence[Part], device: torch.device):
        self.plan = plan
        self.artifact = plan.artifact
        self.parts = [(part.index, part.start, part.filled) for part in parts]
        self.device = device

    def __call__(self, values: list[int | float]) -> Any:
        kept: list[torch.Tensor] = []  # until the kernel is enqueued
        mine: list[int | float] = []
        for index, start, filled in self.parts:
            value = start if index is None else values[index]
            if filled is not None:
                kept.append(tensor := torch.full((), value, dtype=filled, device=self.device))
                value = tensor.data_ptr()
            mine.append(value)
        return self.plan(mine)
