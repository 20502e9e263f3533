"""What every test shares: GPU tests are skipped, with the reason, where there is no GPU."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from seed import SEED

if os.environ.get("CI"):  # a run that decides draws the same examples as the one before
    settings.register_profile("ci", derandomize=True)
    settings.load_profile("ci")


def _why_no_gpu() -> str | None:
    import torch

    if torch.cuda.is_available():
        return None
    return "needs a CUDA GPU: " + ("none found" if torch.version.cuda else "this torch is a CPU build")


def pytest_report_header() -> str:
    return f"seed of the random tests: {SEED} (SCANWEAVER_TEST_SEED={SEED} repeats it)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    reason = _why_no_gpu() if on_gpu else None
    if reason is not None:
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=reason))
