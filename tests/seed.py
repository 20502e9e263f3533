"""The seed of all random tests, new in every run."""

from __future__ import annotations

import os
import random
import zlib

_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")  # the same in all workers of a run, which must collect the same tests

SEED = int(os.environ.get("SCANWEAVER_TEST_SEED") or (zlib.crc32(_RUN.encode()) if _RUN else random.getrandbits(31)))
