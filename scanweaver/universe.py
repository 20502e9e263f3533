"""What a plain `xdsl-opt` finds of ours, through the `xdsl.universe` entry point.

Only names that xDSL does not have: a name that two universes claim stops `xdsl-opt` for the whole environment,
so our `gpu` and the `nvvm` that goes with it are known to `scanweaver-opt` alone.
"""

from __future__ import annotations

from xdsl.universe import Universe

from scanweaver.dialects import get_all_dialects
from scanweaver.transforms import get_all_passes

SCANWEAVER_UNIVERSE = Universe(
    all_dialects={name: get_all_dialects()[name] for name in ("recurrence", "scan")},
    all_passes=get_all_passes(),
)
