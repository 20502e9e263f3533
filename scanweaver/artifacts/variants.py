"""One of an artifact's kernels, and which calls it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from scanweaver.artifacts.contract import FORMS, Contract
from scanweaver.artifacts.plain import size_from, text_from
from scanweaver.errors import ScanWeaverError
from scanweaver.frontend.binding import Layout
from scanweaver.frontend.specialization import Given
from scanweaver.gpu_exec.abi import Operand
from scanweaver.gpu_exec.artifact import Artifact


@dataclass(frozen=True)
class Guard:
    """Sizes that a kernel was made for: at least so many rows, at least so many positions along an axis."""

    rows: int = 0
    sizes: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        conditions = [f"{self.rows} rows or more"] if self.rows else []
        conditions += [f"{axis} >= {size}" for axis, size in self.sizes]
        return ", ".join(conditions)


@dataclass(frozen=True, eq=False)
class Variant:
    """`label` says in words where its operands are contiguous; the artifact's recipe says it operand by operand."""

    label: str
    form: str
    guard: Guard
    artifact: Artifact

    def serves(self, layouts: Sequence[Layout], sizes: Mapping[str, int]) -> bool:
        """Whether a call fits: `layouts` of the kernel's operands and results, in order."""
        rows = prod(sizes[axis] for kernel in self.artifact.recipe.kernels for axis in kernel.rows)
        return (
            rows >= self.guard.rows
            and all(sizes[axis] >= size for axis, size in self.guard.sizes)
            and all(map(_fits, layouts, self.artifact.recipe.operands))
        )

    def __str__(self) -> str:
        guard = f", {self.guard}" if self.guard.rows or self.guard.sizes else ""
        return f"{self.form}: {self.label}{guard}"

    def to_json(self) -> dict[str, Any]:
        guard = {"rows": self.guard.rows, "sizes": dict(self.guard.sizes)}
        return {"label": self.label, "form": self.form, "guard": guard}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], artifact: Artifact, contract: Contract) -> Variant:
        """Raises ScanWeaverError, KeyError, TypeError or ValueError for a variant that does not fit the contract."""
        guard = plain["guard"]
        sizes = tuple((text_from(axis), size_from(size)) for axis, size in guard["sizes"].items())
        limits = Guard(size_from(guard["rows"]), sizes)
        variant = cls(text_from(plain["label"]), text_from(plain["form"]), limits, artifact)
        variant._check(contract)
        return variant

    def _check(self, contract: Contract) -> None:
        """A launch follows the recipe with a call's addresses: it must be of this contract's operands."""
        recipe = self.artifact.recipe
        fits = self.form in FORMS and self.artifact.target == recipe.target == contract.target
        if not fits or [_known(operand) for operand in recipe.operands] != _expected(contract, self.form):
            raise ScanWeaverError(f"{contract.name}: variant {self.label!r} is not what the contract says")
        named = {axis for axis, _ in self.guard.sizes}
        for kernel in recipe.kernels:
            named |= {*kernel.rows} | ({kernel.tiled} if kernel.tiled is not None else set[str]())
            named |= {param.axis for param in kernel.params if param.axis is not None}
        if not named <= contract.axes:
            raise ScanWeaverError(f"{contract.name}: variant {self.label!r} names axes that the contract does not")


def _fits(layout: Layout, operand: Operand) -> bool:
    if operand.contiguous is None:
        return True
    return layout.contiguous == operand.contiguous and layout.align >= operand.align


def _known(operand: Operand) -> tuple[Any, ...]:
    return operand.role, operand.axes, operand.dtype, operand.scalar


def _expected(contract: Contract, form: str) -> list[tuple[Any, ...]]:
    """What is known of a form's operands and results, of each part of what is complex."""

    def as_stored(short: str) -> str:
        return short.replace("u", "i")  # MLIR's integers have no sign

    found: list[tuple[Any, ...]] = []
    inits = len(contract.operands(form)) - len(contract.inputs)
    for i, given in enumerate(contract.operands(form)):
        role = "init" if i < inits else "input"
        found += [(role, given.axes, as_stored(part.dtype), given.scalar) for part in given.parts]
    for i, (axes, dtype) in enumerate(contract.results(form)):
        role = "output" if i < len(contract.outputs) else "last"
        found += [(role, axes, as_stored(part.dtype), False) for part in Given("", axes, dtype).parts]
    return found
