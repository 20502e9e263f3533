"""`sw.config`: settings take effect whenever they are assigned, and say no where they cannot."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import scanweaver as sw
from scanweaver.errors import SignatureError
from scanweaver.frontend import launching
from scanweaver.frontend.launching import target_of


def schedules(step: Any, target: str, *shape: int) -> set[str]:
    """The schedules of calls with few and many rows, on tensors whose rows are one."""
    found: set[str] = set()
    for rows in (1, 64, 100_000):
        u = torch.zeros(1, *shape).expand(rows, *shape)
        scheduled = step.artifact_for(target, u).stages["scheduled"]
        found |= set(re.findall(r"#scan\.schedule<[^>]*>|schedule = [^\n]*", scheduled))
    return found


@pytest.mark.parametrize("target", ["sm_90", "cpu"])
def test_batch_invariant_schedules_do_not_know_the_rows(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = sw.recurrence("h[b d]; u[b d t]")(lambda h, u: 0.5 * h + u)
    free = schedules(step, target, 16, 512)
    assert free, "no schedule was found in the text"
    monkeypatch.setattr(sw.config, "batch_invariant", True)
    assert len(schedules(step, target, 16, 512)) == 1
    assert target == "cpu" or len(free) > 1


def test_a_setting_assigned_after_a_call_makes_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    step = sw.recurrence("h[b]; u[b t]")(lambda h, u: 0.5 * h + u)
    u = torch.ones(3, 4)
    before = step.binder.bind((u,), {})[0]
    step(u)
    monkeypatch.setattr(sw.config, "batch_invariant", True)
    during = step.binder.bind((u,), {})[0]
    assert during.plan is None and before.plan is not None
    monkeypatch.setattr(sw.config, "batch_invariant", False)
    assert step.binder.bind((u,), {})[0] is before
    monkeypatch.setattr(sw.config, "target", "sm_90")
    assert step.binder.bind((u,), {})[0].plan is None
    torch.testing.assert_close(step(u)[:, 0], u[:, 0])  # CPU tensors run on the CPU whatever the target is


def test_a_target_of_another_family_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda", 0)
    monkeypatch.setattr(launching, "_chip", lambda index: "sm_90")
    assert target_of(device) == "sm_90"
    monkeypatch.setattr(sw.config, "target", "sm_80")
    assert target_of(device) == "sm_80" and target_of(torch.device("cpu")) == "cpu"
    monkeypatch.setattr(sw.config, "target", "cpu")
    with pytest.raises(SignatureError, match=r"config.target \(SCANWEAVER_TARGET\) is 'cpu', and the tensors are on"):
        target_of(device)
