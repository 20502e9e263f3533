"""The dialects of ScanWeaver by name, each imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Dialect


def context_of_all() -> Context:
    """A context in which xDSL's dialects and ours are registered."""
    from xdsl.context import Context
    from xdsl.dialects import get_all_dialects as get_upstream_dialects

    context = Context()
    for name, factory in (get_upstream_dialects() | get_all_dialects()).items():
        context.register_dialect(name, factory)
    return context


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """All our dialects; `arith` and `gpu` take the place of xDSL's: that `arith` has scalars where MLIR has vectors,
    that `gpu` prints what MLIR does not read."""

    def get_arith():
        from scanweaver.dialects.arith import Arith

        return Arith

    def get_gpu():
        from scanweaver.dialects.gpu import Gpu

        return Gpu

    def get_nvvm():
        from scanweaver.dialects.nvvm import Nvvm

        return Nvvm

    def get_recurrence():
        from scanweaver.dialects.recurrence import Recurrence

        return Recurrence

    def get_scan():
        from scanweaver.dialects.scan import Scan

        return Scan

    return {
        "arith": get_arith,
        "gpu": get_gpu,
        "nvvm": get_nvvm,
        "recurrence": get_recurrence,
        "scan": get_scan,
    }
