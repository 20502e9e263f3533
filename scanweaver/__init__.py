"""ScanWeaver: a recurrence written once, as one step, becomes a fused kernel for GPU and CPU.

Public names are imported when they are first used (PEP 562): `import scanweaver` loads neither torch, xdsl
nor numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Bound here and now: were it lazy, the module of the same name would take its place when it is first imported.
from scanweaver.config import config
from scanweaver.errors import (
    DriverError,
    NotAssociativeError,
    ScanWeaverError,
    SignatureError,
    ToolchainError,
    TraceError,
    UnsupportedError,
)

__version__ = "0.1.0"

if TYPE_CHECKING:
    from scanweaver import errors, ops
    from scanweaver.artifacts.swa import load
    from scanweaver.frontend.from_mlir import from_mlir
    from scanweaver.frontend.functions import (
        argmax,
        argmin,
        cast,
        clamp,
        complex,
        conj,
        cos,
        detach,
        erf,
        exp,
        exp2,
        expm1,
        imag,
        isnan,
        log,
        log1p,
        log2,
        logaddexp,
        logsumexp,
        max,
        maximum,
        min,
        minimum,
        real,
        relu,
        rename,
        rsqrt,
        sigmoid,
        silu,
        sin,
        softplus,
        sqrt,
        sum,
        take,
        tanh,
        where,
    )
    from scanweaver.frontend.recurrence import recurrence
    from scanweaver.ops.affine_scan import affine_scan

_SUBMODULES = ("errors", "ops")

_HOME = {
    "recurrence": "scanweaver.frontend.recurrence",
    "affine_scan": "scanweaver.ops.affine_scan",
    "from_mlir": "scanweaver.frontend.from_mlir",
    "load": "scanweaver.artifacts.swa",
} | dict.fromkeys(
    (
        *("exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tanh"),
        *("sigmoid", "silu", "softplus", "relu", "erf", "maximum", "minimum", "logaddexp"),
        *("isnan", "detach", "real", "imag", "conj", "where", "clamp", "cast", "complex"),
        *("sum", "max", "min", "logsumexp", "argmax", "argmin", "take", "rename"),
    ),
    "scanweaver.frontend.functions",
)

_NOT_BUILT_YET = ("algebra", "compat", "from_stablehlo", "from_torch")

__all__ = [
    "DriverError",
    "NotAssociativeError",
    "ScanWeaverError",
    "SignatureError",
    "ToolchainError",
    "TraceError",
    "UnsupportedError",
    "affine_scan",
    "argmax",
    "argmin",
    "cast",
    "clamp",
    "complex",
    "config",
    "conj",
    "cos",
    "detach",
    "erf",
    "errors",
    "exp",
    "exp2",
    "expm1",
    "from_mlir",
    "imag",
    "isnan",
    "load",
    "log",
    "log1p",
    "log2",
    "logaddexp",
    "logsumexp",
    "max",
    "maximum",
    "min",
    "minimum",
    "ops",
    "real",
    "recurrence",
    "relu",
    "rename",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "softplus",
    "sqrt",
    "sum",
    "take",
    "tanh",
    "where",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"scanweaver.{name}")
    elif name in _NOT_BUILT_YET:
        raise UnsupportedError(f"scanweaver.{name} is not built yet")
    else:
        raise AttributeError(f"module 'scanweaver' has no attribute {name!r}{_instead_of(name)}")
    globals()[name] = value  # the next look-up does not come here
    return value


def _instead_of(name: str) -> str:
    """`sw.abs`, `sw.clip`: what a step writes."""
    from scanweaver.frontend.misuse import OPERATORS, OTHER_NAMES, instead_of

    return f": {instead_of(name)}" if name in OPERATORS or name in OTHER_NAMES else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
