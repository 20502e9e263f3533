"""`sw.take` at positions outside of its axis: the nearest one, as in the reference semantics; constants are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import scanweaver as sw
from scanweaver.errors import SignatureError
from scanweaver.interpreters import run_module

FAR = (-(2**63), -(10**12), -1, 0, 6, 7, 10**12, 2**63 - 1)


@sw.recurrence("h[b n]; x[b q t], y[q], i[b t], k[n t] -> o[b t], p[b t], r[b n t]")
def taking(h: Any, x: Any, y: Any, i: Any, k: Any) -> Any:
    h = 0.5 * h + sw.take(y, i, "q")
    return h, (sw.take(x, i, "q"), sw.take(h, i, "n"), sw.take(x, k, "q"))


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_positions_outside_take_the_nearest_one(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 7, 16, generator=generator)
    y = torch.randn(7, generator=generator)
    i = torch.tensor(FAR)[torch.randint(len(FAR), (rows, 16), generator=generator)]
    k = torch.tensor(FAR)[torch.randint(len(FAR), (4, 16), generator=generator)]
    ours, _ = taking(x, y, i, k, init=torch.ones(4), return_last=True)

    h, near, nearer, ks = torch.ones(rows, 4), i.clamp(0, 6), i.clamp(0, 3), k.clamp(0, 6)
    for t in range(16):
        h = 0.5 * h + y[near[:, t], None]
        torch.testing.assert_close(ours[0][:, t], x[:, :, t].gather(1, near[:, t, None])[:, 0])
        torch.testing.assert_close(ours[1][:, t], h.gather(1, nearer[:, t, None])[:, 0])
        torch.testing.assert_close(ours[2][:, :, t], x[:, ks[:, t], t])

    given = (torch.ones(4), x, y, i, k)
    module = taking.planner.traced(taking.binder.bind(given[1:], {"init": given[0]})[0]).module
    interpreted = run_module(module, "taking", *(value.numpy() for value in given))
    for one, other in zip(ours, interpreted, strict=False):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)


def test_a_gpu_kernel_clamps_too() -> None:
    sizes = (torch.empty(3, 7, 16), torch.empty(7), torch.zeros(3, 16, dtype=torch.int64))
    text = taking.artifact_for("sm_90", *sizes, torch.zeros(4, 16, dtype=torch.int64), init=torch.ones(4)).stages["gpu"]
    assert text.count("arith.maxsi") >= 3 and text.count("arith.minsi") >= 3


def test_a_constant_outside_is_refused_with_its_axis_and_size() -> None:
    at = sw.recurrence("h[b]; x[b q t]")(lambda h, x: h + sw.take(x, 3, "q"))
    assert at(torch.ones(2, 4, 5)).shape == (2, 5)
    with pytest.raises(SignatureError, match=r"`sw.take` at position 3 of axis `q`, which has size 3") as caught:
        at(torch.ones(2, 3, 5))
    assert "test_take.py:" in str(caught.value)


def test_an_axis_without_elements_is_refused() -> None:
    at = sw.recurrence("h[b]; x[b q t], i[t]")(lambda h, x, i: h + sw.take(x, i, "q"))
    with pytest.raises(SignatureError, match=r"`sw.take` from axis `q`, which has size 0"):
        at(torch.ones(2, 0, 5), torch.zeros(5, dtype=torch.int64))
