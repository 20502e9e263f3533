"""Room for recursion over a step's operations."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

DEEPEST = 100_000
"""Frames: a step of some thousand operations in a row, a few frames each. Python's own calls take no C stack."""


@contextmanager
def deep_recursion() -> Generator[None]:
    """Raises Python's limit for as long as a step is compiled: its values are visited from the last to the first."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
