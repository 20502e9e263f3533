"""The errors that ScanWeaver raises. All derive from `ScanWeaverError`."""

from __future__ import annotations


class ScanWeaverError(Exception):
    """Base of every error that ScanWeaver raises on purpose."""


class SignatureError(ScanWeaverError, ValueError):
    """A signature, shape, axis, dtype or device is wrong; names the argument, what was expected and what came."""


class TraceError(ScanWeaverError, TypeError):
    """A step function did with a traced value what only a number can do; names the `sw` function to use."""


class NotAssociativeError(ScanWeaverError):
    """A step was not proved associative where `parallel="require"` asks for it; names the operation and why."""


class ToolchainError(ScanWeaverError):
    """A tool is missing or failed; names it, where it was looked for, its stderr and how to repeat the call."""


class DriverError(ScanWeaverError):
    """A CUDA driver call returned an error; names the call and the code."""


class UnsupportedError(ScanWeaverError, NotImplementedError):
    """What was asked for belongs to the language but is not built yet; says what and what to do meanwhile."""
