"""Random recurrences over random tensors: what must work works, what must be refused is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checked import Checked
from drawing import Memory, memories, programs, tensor
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from poison import poisoned
from programs import Input, Program
from reference import flat
from torch import Tensor

import scanweaver as sw

WHERE = [
    pytest.param(("cpu", "auto"), id="cpu"),
    pytest.param(("cuda", "serial"), id="cuda-serial", marks=pytest.mark.gpu),
    pytest.param(("cuda", "lanes"), id="cuda-lanes", marks=pytest.mark.gpu),
    pytest.param(("cuda", "blelloch"), id="cuda-blelloch", marks=pytest.mark.gpu),
]
EVERYWHERE = pytest.mark.parametrize("where", WHERE)
IN_ORDER = pytest.mark.parametrize("where", WHERE[:2])
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
TINY = {torch.float64: 1e-290, torch.float32: 1e-34, torch.float16: 1e-7, torch.bfloat16: 1e-34}
"""What underflow may cost."""


def examples(count: int) -> Any:
    """Each example compiles a kernel, so there are not many, but new ones in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        print_blob=True,
        phases=[phase for phase in Phase if phase is not Phase.explain],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def tensors_of(program: Program, data: Any, special: bool, device: str) -> list[Tensor]:
    places = data.draw(st.lists(memories, min_size=len(program.inputs), max_size=len(program.inputs)), "memory")
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31), "seed"))
    return [
        tensor(of, program.sizes, place, generator, special, device)
        for of, place in zip(program.inputs, places, strict=True)
    ]


def starts_of(program: Program, data: Any, device: str) -> list[Any]:
    starts: list[Any] = []
    for axes in program.states:
        kind = data.draw(st.sampled_from(("none", "number", "full", "ones", "fewer")), "init")
        shape = [program.sizes[axis] for axis in axes]
        if kind == "ones":
            shape = [1] * len(shape)
        if kind == "fewer":
            shape = shape[1:]
        full = torch.linspace(-1, 1, max(1, torch.Size(shape).numel()), device=device).view(shape)
        starts.append({"none": None, "number": 0.5}.get(kind, full))
    return starts


def kind(x: Tensor) -> Tensor:
    """0 finite, 3 NaN, ±2 infinite."""
    return torch.where(x.isnan(), 3.0, torch.where(x.isinf(), 2 * x.sign(), 0.0))


def hold(got: Tensor, exact: Checked, single: Checked, slack: float, label: str) -> None:
    """Compares where the loop says the same in float32 as in float64: overflow in one alone is not ours to match."""
    assert got.shape == exact.x.shape, label
    want = exact.x.to(got.dtype)
    overflows = exact.x.isfinite() & (exact.x.abs() > 0.99 * torch.finfo(got.dtype).max) & want.isfinite()
    same = (kind(want) == kind(single.x.to(got.dtype))) & ~overflows
    wrong = same & (kind(got) != kind(want))
    assert not bool(wrong.any()), f"{label}: {got[wrong][:4]} where the loop has {want[wrong][:4]}"
    limit = slack * exact.e + UNIT[got.dtype] * exact.x.abs() + TINY[got.dtype]
    off = (got.double() - exact.x).abs()
    wrong = same & want.isfinite() & limit.isfinite() & ~(off <= limit)
    told = f"{label}: off by {off[wrong][:4]}, granted {limit[wrong][:4]}, of {exact.x[wrong][:4]}"
    assert not bool(wrong.any()), told


def check(program: Program, data: Any, where: tuple[str, str], special: bool, **options: Any) -> None:
    device, strategy = where
    tensors = tensors_of(program, data, special, device)
    starts = starts_of(program, data, device)
    compute = torch.float64 if any(x.dtype == torch.float64 for x in tensors) else torch.float32
    host = [x.cpu() for x in tensors], [x.cpu() if isinstance(x, Tensor) else x for x in starts]
    exact = program.run(*host, torch.float64, UNIT[compute])
    single = program.run(*host, compute, UNIT[compute])
    with poisoned():
        got = program.recurrence()(
            *tensors, init=tuple(starts), return_last=True, reverse=program.reverse, strategy=strategy, **options
        )
    results = list(flat(got))
    labels = [f"y{i}" for i in range(len(program.outputs))] + [f"last h{i}" for i in range(len(program.states))]
    assert len(results) == len(labels)
    for result, want, loop, label in zip(results, exact, single, labels, strict=True):
        hold(result.cpu(), want, loop, 16 if strategy in ("lanes", "blelloch") else 4, label)


# --- what must work ----------------------------------------------------------------------------------------------


@EVERYWHERE
@given(program=programs(affine=True), data=st.data())
@examples(25)
def test_affine_programs(where: tuple[str, str], program: Program, data: Any) -> None:
    check(program, data, where, special=False, parallel="require")


@IN_ORDER
@given(program=programs(affine=True), data=st.data())
@examples(20)
def test_special_values_as_in_the_loop(where: tuple[str, str], program: Program, data: Any) -> None:
    """0, 1, inf, huge and NaN: none crosses a reset, none comes up where the loop has none."""
    check(program, data, where, special=True)


@IN_ORDER
@given(program=programs(affine=False), data=st.data(), special=st.booleans())
@examples(25)
def test_programs_that_no_algebra_takes(where: tuple[str, str], program: Program, data: Any, special: bool) -> None:
    check(program, data, where, special)


# --- what must be refused ----------------------------------------------------------------------------------------


@given(program=programs(affine=False), data=st.data())
@examples(20)
def test_require_refuses_what_no_algebra_takes(program: Program, data: Any) -> None:
    tensors = tensors_of(program, data, False, "cpu")
    with pytest.raises(sw.NotAssociativeError, match="tanh"):
        program.recurrence()(*tensors, parallel="require")


@given(program=programs(affine=True), data=st.data())
@examples(100)
def test_a_wrong_argument_is_named(program: Program, data: Any) -> None:
    tensors = tensors_of(program, data, False, "cpu")
    i = data.draw(st.integers(0, len(tensors) - 1), "which")
    axes, shape = program.inputs[i].axes, tensors[i].shape
    faults = ["unknown", "many", "few", "rank", "dtype", "list", "init", "grad"]
    shared = [axis for axis in axes if sum(axis in x.axes for x in program.inputs) > 1]
    fault = data.draw(st.sampled_from(faults + ["size"] * bool(shared)), "fault")
    options: dict[str, Any] = {}
    message = rf"`x{i}\["
    if fault == "unknown":
        options, message = {f"x{len(tensors)}": tensors[0]}, f"`x{len(tensors)}`"
    elif fault == "many":
        tensors, message = [*tensors, tensors[0]], f"takes {len(tensors)} inputs"
    elif fault == "few":
        message = rf"`x{len(tensors) - 1}\[.*got nothing"
        tensors = tensors[:-1]
    elif fault == "rank":
        tensors[i] = tensors[i][None]
    elif fault == "dtype":
        tensors[i] = torch.zeros(tensors[i].shape, dtype=torch.uint16)
    elif fault == "list":
        tensors[i] = tensors[i].tolist()
        assume(isinstance(tensors[i], list))
    elif fault == "init":
        options["init"] = (*[None] * (len(program.states) - 1), torch.zeros([2] * (len(program.states[-1]) + 1)))
        message = "init of state"
    elif fault == "grad":
        assume(tensors[i].dtype.is_floating_point)
        tensors[i] = tensors[i].clone().requires_grad_()
    elif fault == "size":
        axis = data.draw(st.sampled_from(shared), "axis")
        larger = list(shape)
        larger[axes.index(axis)] += 1
        tensors[i] = torch.zeros(larger).to(tensors[i].dtype)
        message = f"axis `{axis}` has size"
    with pytest.raises((sw.SignatureError, sw.UnsupportedError), match=message):
        program.recurrence()(*tensors, **options)


@given(program=programs(affine=True), data=st.data())
@examples(60)
def test_an_axis_that_is_not_reduced_is_named(program: Program, data: Any) -> None:
    j = data.draw(st.integers(0, len(program.outputs) - 1), "output")
    present = [axis for axis in program.outputs[j] if axis in program.values[j].axes]
    assume(present)
    axis = data.draw(st.sampled_from(present), "axis")
    program.outputs[j] = tuple(other for other in program.outputs[j] if other != axis)
    tensors = tensors_of(program, data, False, "cpu")
    with pytest.raises(sw.SignatureError, match=rf"`?y{j}.*`?{axis}`?"):
        program.recurrence()(*tensors)


def test_the_bound_is_not_so_wide_that_anything_passes() -> None:
    """One in a thousand is seen; so is a NaN, an infinity and a number in the place of one."""
    exact = Checked(torch.tensor([1.0, 1000.0]).double(), 1e-6, 2.0**-24)
    hold(torch.tensor([1.0, 1000.0]), exact, exact, 4, "right")
    for wrong in ([1.001, 1000.0], [1.0, 1001.0], [torch.nan, 1000.0], [1.0, torch.inf]):
        with pytest.raises(AssertionError):
            hold(torch.tensor(wrong), exact, exact, 4, "wrong")
    inf = Checked(torch.tensor([torch.inf, torch.nan]).double(), 0.0, 2.0**-24)
    for wrong in ([1.0, torch.nan], [torch.inf, 1.0], [-torch.inf, torch.nan]):
        with pytest.raises(AssertionError):
            hold(torch.tensor(wrong), inf, inf, 4, "wrong")


def test_tensors_lie_as_they_are_told() -> None:
    """The values do not depend on the place, except where a dimension is repeated."""
    of = Input(("d", "t", "b"), torch.float32, 1.0)
    sizes, made = {"b": 2, "d": 3, "t": 4}, {}
    for order in range(6):
        x = tensor(of, sizes, Memory(order, 2, 1, 30), torch.Generator().manual_seed(1), False, "cpu")
        assert x.shape == (3, 4, 2)
        assert sorted(x.flatten().tolist()) == sorted(made.setdefault("values", x.flatten().tolist()))
        made[x.stride()] = True
    assert len(made) == 7
    x = tensor(of, sizes, Memory(0, 1, 0, 1), torch.Generator().manual_seed(1), False, "cpu")
    assert 0 in x.stride()
