"""The gallery: every program equals its reference, which is not ours, and is proved what docs/gallery.md says of it."""

from __future__ import annotations

import inspect
import re
import runpy
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from documents import ROOT, table
from reference import error, flat
from torch import Tensor

from scanweaver.explain.proof import proofs

FILES = sorted((ROOT / "examples" / "gallery").glob("*.py"))
PAGE = (ROOT / "docs" / "gallery.md").read_text()
BOUND = {torch.float32: 1e-6, torch.float64: 1e-14}
"""The error granted in norm; the examples are well conditioned."""

EVERYWHERE = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
FORMS = pytest.mark.parametrize(
    ("channels", "dtype"),
    [(False, torch.float32), (True, torch.float32), (False, torch.float64)],
    ids=["steps", "channels", "float64"],
)


@dataclass
class Example:
    """One file of the gallery: a program, what it is called with, and what that should give."""

    name: str
    doc: str
    program: Any
    call: dict[str, Any]
    reference: Callable[..., Any]

    def on(self, device: str, channels: bool) -> dict[str, Any]:
        """The call's arguments on a device, with time or what stands before it contiguous."""
        timed = {array.name for array in self.program.signature.inputs if "t" in array.axes}
        return {
            name: placed(value, device, channels and name in timed)
            if isinstance(value, Tensor)
            else moved(value, device)
            for name, value in self.call.items()
        }

    def expected(self) -> list[Tensor]:
        """The reference's results, computed in float64 as far as it lets us."""
        wanted = inspect.signature(self.reference).parameters
        exact = {name: moved(value, torch.float64) for name, value in self.call.items() if name in wanted}
        return list(flat(self.reference(**exact)))


def placed(x: Tensor, device: str, channels: bool) -> Tensor:
    """Time is every array's last axis here; with `channels`, the axis before it is contiguous instead."""
    x = x.to(device)
    return x.mT.contiguous().mT if channels and x.dim() > 1 else x.contiguous()


def moved(value: Any, to: Any) -> Any:
    """Tensors, and tuples of them, on another device or in float64 (complex128); bools stay bools."""
    if isinstance(value, tuple):
        return tuple(moved(x, to) for x in value)
    if not isinstance(value, Tensor) or (to == torch.float64 and value.dtype == torch.bool):
        return value
    return value.to(torch.complex128 if to == torch.float64 and value.is_complex() else to)


def load(file: Any, dtype: torch.dtype = torch.float32) -> Example:
    names = runpy.run_path(str(file))
    generator = torch.Generator().manual_seed(zlib.crc32(file.stem.encode()))

    def rand(*shape: int, low: float = -1.0, high: float = 1.0) -> Tensor:
        return (low + (high - low) * torch.rand(shape, generator=generator)).to(dtype)

    program, call = names["example"](rand)
    return Example(file.stem, names["__doc__"], program, call, names["reference"])


def entry(heading: str, name: str) -> list[str] | None:
    """The cells of the row that links to a program, in the table with that first heading."""
    rows = [row for row in table(PAGE, heading) if row[0].endswith(f"](../examples/gallery/{name}.py)")]
    return rows[0] if rows else None


@EVERYWHERE
@FORMS
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_equals_its_reference(file: Any, device: str, channels: bool, dtype: torch.dtype) -> None:
    example = load(file, dtype)
    try:
        expected = example.expected()
    except ModuleNotFoundError as missing:
        pytest.skip(f"the reference needs {missing.name}")
    results = list(flat(example.program(**example.on(device, channels))))
    assert [tuple(y.shape) for y in results] == [tuple(y.shape) for y in expected]
    single = any(state.dtype == "complex64" for state in example.program.signature.states)
    granted = BOUND[torch.float32 if single else dtype]
    for y, want in zip(results, expected, strict=True):
        got = y.cpu()
        if want.dtype == torch.bool:
            assert torch.equal(got, want)
            continue
        assert got.dtype == dtype
        assert torch.equal(got.isnan(), want.isnan()), "the same numbers are missing"
        assert error(got.nan_to_num(), want.nan_to_num()) <= granted


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_is_proved_what_the_page_says(file: Any) -> None:
    example = load(file)
    components = list(proofs(example.program.artifact(**example.call).stages["scan"]))
    row = entry("program", example.name)
    assert row is not None, "docs/gallery.md has no row for it"
    _, _, states, proved, parallel, source = row
    marked = [f"{state}:{state.dtype}" if state.dtype else str(state) for state in example.program.signature.states]
    assert states == ", ".join(f"`{state}`" for state in marked)
    assert proved == ", ".join(f"`{' '.join(each.states)}` {each.algebra}" for each in components)
    assert parallel == ("no" if any(each.refused for each in components) else "yes")
    assert f"Source: {cited(source)}." in example.doc
    refusals = [each.why.partition(" (")[0] for each in components if each.refused]
    refused = entry("refused", example.name)
    assert (refused[1:] if refused else []) == refusals


def cited(cell: str) -> str:
    """A source as a docstring names it: a link's text, then its address."""
    return re.sub(r"\[(.*?)\]\((.*?)\)", r"\1, \2", cell)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_compiles_for_a_gpu(file: Any) -> None:
    example = load(file)
    assert ".target sm_90" in example.program.artifact_for("sm_90", **example.call).stages["ptx"]


def test_the_page_lists_no_other_program() -> None:
    assert len(table(PAGE, "program")) == len(FILES)


def test_ewm_can_ignore_missing_values() -> None:
    example = load(ROOT / "examples" / "gallery" / "ewm.py", torch.float64)
    example.call["ignore_na"] = True
    (want,) = example.expected()
    assert error(example.program(**example.call).nan_to_num(), want.nan_to_num()) <= 1e-14
