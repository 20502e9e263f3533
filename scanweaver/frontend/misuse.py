"""What a step's value cannot do: every refusal names the `sw` function to use and the line of the user's code.

A traced value is a symbol. Python asks it for a truth value, a number or a length in `if`, `max()`, `math.exp()`,
`range()` and the like; the syntax around the place tells which of them it was.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from scanweaver.errors import TraceError

_LINE_WIDTH = 100
"""Characters of a line of source in a message."""

_OURS = "scanweaver.frontend"

FUNCTIONS = frozenset(
    (
        *("exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tanh"),
        *("sigmoid", "silu", "softplus", "relu", "erf", "maximum", "minimum", "logaddexp", "isnan"),
        *("detach", "real", "imag", "conj", "where", "clamp", "cast", "complex"),
        *("sum", "max", "min", "logsumexp", "argmax", "argmin", "take", "rename"),
    )
)

OTHER_NAMES = {
    "clip": "sw.clamp(x, lo, hi)",
    "fmax": "sw.maximum(a, b)",
    "fmin": "sw.minimum(a, b)",
    "float": "sw.cast(x, torch.float32)",
    "int": "sw.cast(x, torch.int64)",
    "bool": "sw.cast(x, torch.bool) or a comparison",
    "fabs": "abs(x)",
    "abs": "abs(x)",
    "absolute": "abs(x)",
    "neg": "`-x`",
    "square": "`x * x`",
    "reciprocal": "`1 / x`",
    "logical_and": "`&`",
    "logical_or": "`|`",
    "logical_not": "`~`",
    "nan_to_num": "sw.where(sw.isnan(x), 0, x)",
    "sign": "sw.where(x > 0, 1, sw.where(x < 0, -1, 0))",
    "gather": 'sw.take(x, i, "q")',
    "index_select": 'sw.take(x, i, "q")',
    "logcumsumexp": "a state with sw.logaddexp",
    "cumsum": "a state",
    "cumprod": "a state",
    "mean": 'sw.sum(x, "n") times 1 / size, a number',
    "softmax": 'sw.exp(x - sw.logsumexp(x, "n"))',
}
"""What to write for functions that the language does not have."""

OPERATORS = {
    "add": ("+", "add"),
    "bitwise_and": ("&", "and_"),
    "bitwise_or": ("|", "or_"),
    "bitwise_xor": ("^", "xor"),
    "divide": ("/", "truediv"),
    "equal": ("==", "eq"),
    "greater": (">", "gt"),
    "greater_equal": (">=", "ge"),
    "left_shift": ("<<", "lshift"),
    "less": ("<", "lt"),
    "less_equal": ("<=", "le"),
    "mul": ("*", "mul"),
    "multiply": ("*", "mul"),
    "not_equal": ("!=", "ne"),
    "pow": ("**", "pow"),
    "power": ("**", "pow"),
    "right_shift": (">>", "rshift"),
    "sub": ("-", "sub"),
    "subtract": ("-", "sub"),
}
"""The operators that NumPy and PyTorch also give names: what to write, and its name in Python's `operator`."""


_AXES = "its axes are the signature's, and their sizes are known to the caller"
_CAST = "write `sw.cast(x, dtype)`"
_IMMUTABLE = "a value is never changed, so write `x`"
_ATTRIBUTES = {
    **dict.fromkeys(("shape", "size", "dim", "ndim", "numel", "stride", "device"), _AXES),
    **dict.fromkeys(("to", "type", "type_as", "astype", "double", "half", "bfloat16", "long"), _CAST),
    **dict.fromkeys(("clone", "copy", "contiguous"), _IMMUTABLE),
    **dict.fromkeys(
        ("T", "mT", "t", "transpose", "permute", "view", "reshape", "unsqueeze", "squeeze", "expand"), _AXES
    ),
    **dict.fromkeys(("item", "tolist", "numpy", "cpu", "cuda"), "it is known only when the kernel runs"),
}
"""What to write for the attributes of a tensor that a step's value lacks."""


# --- where in the user's code -----------------------------------------------------------------------------------


def user_frame() -> FrameType | None:
    """The innermost frame that is not the front end's."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_OURS):
        frame = frame.f_back
    return frame


@cache
def source_line(filename: str, line: int) -> str:
    """`file.py:12: h = sw.exp(a) * h`: the file's base name only, so that the text does not depend on the machine."""
    text = linecache.getline(filename, line).strip()
    text = text.encode("ascii", "backslashreplace").decode()  # xDSL does not read back what it prints of other letters
    if len(text) > _LINE_WIDTH:
        text = text[: _LINE_WIDTH - 3] + "..."
    return f"{Path(filename).name}:{line}" + (f": {text}" if text else "")


def user_source() -> str:
    frame = user_frame()
    return source_line(frame.f_code.co_filename, frame.f_lineno) if frame else ""


def refuse(message: str) -> NoReturn:
    """Raise a TraceError with the line of the user's code."""
    raise TraceError(f"{message}\n    {user_source()}")


def _enclosing_nodes(frame: FrameType) -> Iterator[ast.AST]:
    """The syntax around the instruction that runs in `frame`, innermost first; nothing where there is no source."""
    line, end_line, column, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except SyntaxError:
        return
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt)
        and (node.lineno, node.col_offset) <= (line, column)
        and (node.end_lineno or 0, node.end_col_offset or 0) >= (end_line, end_column)
    ]
    yield from reversed(around)  # ast.walk is breadth first: the deeper, the later


def _called(frame: FrameType) -> str | None:
    """The function whose call runs in `frame`, as written: `math.exp`."""
    for node in _enclosing_nodes(frame):
        if isinstance(node, ast.Call):
            return ast.unparse(node.func)
    return None


# --- what to write instead --------------------------------------------------------------------------------------


def instead_of(function: str) -> str:
    """What to write for `math.exp`, `torch.exp`, `np.clip`."""
    name = function.rpartition(".")[2]
    if name in FUNCTIONS:
        return f"write `sw.{name}`"
    if name in OPERATORS:
        return f"write the operator `{OPERATORS[name][0]}`"
    if name in OTHER_NAMES:
        return f"write {OTHER_NAMES[name]}"
    return "a step is written with Python's operators and the functions of `sw`"


def refuse_truth() -> NoReturn:
    """`if h > 0`, `h and g`, `max(h, 0)`: Python asks for a truth value."""
    frame = user_frame()
    choose = "write `sw.where(cond, a, b)`"
    for node in _enclosing_nodes(frame) if frame else ():
        match node:
            case ast.BoolOp(op=ast.And()):
                refuse("`and` on a step's value: write `&`, with each side in parentheses")
            case ast.BoolOp():
                refuse("`or` on a step's value: write `|`, with each side in parentheses")
            case ast.UnaryOp(op=ast.Not()):
                refuse("`not` on a step's value: write `~`")
            case ast.Compare(ops=[_, _, *_]):
                refuse("a chain of comparisons on a step's value: write `(a < x) & (x < b)`")
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                refuse("`in` with a step's value: compare with each, and join them by `|`")
            case ast.Call(func=ast.Name(id="max" | "min" as name)):
                refuse(f"`{name}()` on a step's value: write `sw.{name}imum(a, b)`")
            case ast.Call(func=ast.Name(id="bool" | "any" | "all" | "sorted" | "filter" as name)):
                refuse(f"`{name}()` on a step's value has no number to look at: {choose}, or `&` and `|`")
            case ast.If() | ast.IfExp():
                refuse(f"`if` on a step's value, which is known only when the kernel runs: {choose}")
            case ast.While():
                refuse("`while` on a step's value: the loop's length must be known when the step is traced")
            case ast.Assert():
                refuse("`assert` on a step's value, which is known only when the kernel runs")
            case _:
                pass
    refuse(
        f"a step's value has no truth value when it is traced: for `if` {choose}, for `and` `&`, for max() `sw.maximum`"
    )


def refuse_number(what: str) -> NoReturn:
    """`math.exp(h)`, `float(h)`, `range(h)`: Python asks for a number."""
    frame = user_frame()
    function = _called(frame) if frame else None
    if function is None:
        refuse(f"a step's value is not {what} when it is traced: {instead_of('')}")
    refuse(f"`{function}()` on a step's value, which is known only when the kernel runs: {instead_of(function)}")


def refuse_foreign(value: object) -> NoReturn:
    """Something that is neither a step's value nor a number meets a step's value."""
    if not is_tensor(value):
        kind = type(value).__name__
        refuse(f"expected a step's value or a number, got {'None' if value is None else f'{_a(kind)} `{kind}`'}")
    name = _name_of(value)
    dims = len(getattr(value, "shape", ()))
    axes = " ".join(("d", "n", "m", "k", "p", "q", "r", "s")[:dims])
    what = f"`{name}` is" if name else "this is"
    refuse(
        f"{what} a tensor of shape {tuple(getattr(value, 'shape', ()))} that the step closes over: make it an input, "
        f"such as `{name or 'w'}[{axes}]` in the signature and a parameter of the step"
    )


def is_tensor(value: object) -> bool:
    """Whether `value` is a PyTorch tensor or a NumPy array, told without importing either."""
    return any(
        (base.__module__, base.__name__) in (("torch", "Tensor"), ("numpy", "ndarray")) for base in type(value).__mro__
    )


class _NoAttributeError(TraceError, AttributeError):
    """Python's `hasattr` and `getattr` with a default take it as the answer no."""


def refuse_attribute(name: str) -> NoReturn:
    """`h.exp()`, `h.shape`, `h.to(torch.float64)`."""
    if name in FUNCTIONS:
        refuse(f"a step's value has no method `{name}`: write `sw.{name}(x)`")
    if name.startswith("__"):  # asked by Python and NumPy
        raise AttributeError(f"a step's value has no attribute {name!r}")
    hint = _ATTRIBUTES.get(name) or instead_of(name)
    raise _NoAttributeError(f"a step's value has no attribute `{name}`: {hint}\n    {user_source()}")


def _name_of(value: object) -> str | None:
    """The name under which the user's code knows `value`."""
    frame = user_frame()
    if frame is None:
        return None
    for scope in (frame.f_locals, {name: frame.f_globals.get(name) for name in frame.f_code.co_names}):
        for name, known in scope.items():
            if known is value:
                return name
    return None


def _a(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"


class Misuse:
    """The special methods of a symbol that stands for no number yet: each refuses."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        refuse_truth()

    def __float__(self) -> NoReturn:
        refuse_number("a number")

    def __int__(self) -> NoReturn:
        refuse_number("an integer")

    def __index__(self) -> NoReturn:
        refuse_number("an integer")

    def __complex__(self) -> NoReturn:
        refuse_number("a number")

    def __round__(self, digits: int = 0) -> NoReturn:
        refuse_number("a number")

    def __trunc__(self) -> NoReturn:
        refuse_number("a number")

    def __floor__(self) -> NoReturn:
        refuse_number("a number")

    def __ceil__(self) -> NoReturn:
        refuse_number("a number")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        refuse_number("an array")

    def __format__(self, spec: str) -> str:
        if spec:
            refuse_number("a number")
        return repr(self)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        refuse("a step's value is a number, not a function")

    def __len__(self) -> NoReturn:
        refuse("a step's value is one scalar and has no length: its axes are the signature's")

    def __iter__(self) -> NoReturn:
        refuse('a step\'s value is one scalar and cannot be unpacked: reduce over an axis by `sw.sum(x, "n")`')

    def __contains__(self, _: object) -> NoReturn:
        refuse("a step's value is one scalar and contains nothing")

    def __getitem__(self, _: object) -> NoReturn:
        refuse(
            'a step\'s value is one scalar: `sw.take(x, i, "q")` reads position `i` of axis `q`; an earlier step is a '
            "state returned as the input"
        )

    def __setitem__(self, *_: object) -> NoReturn:
        refuse("a step's value cannot be assigned to: return the new state")

    def __delitem__(self, _: object) -> NoReturn:
        refuse("a step's value is one scalar: nothing can be taken out of it")

    def __floordiv__(self, _: object) -> NoReturn:
        refuse("`//` on a step's value is not in the language: `>>` divides an integer by a power of two")

    def __mod__(self, _: object) -> NoReturn:
        refuse("`%` on a step's value is not in the language: `& (2**k - 1)` is the remainder by a power of two")

    def __divmod__(self, _: object) -> NoReturn:
        refuse("`divmod()` on a step's value is not in the language: `>>` and `&` serve powers of two")

    def __matmul__(self, _: object) -> NoReturn:
        refuse('`@` on a step\'s value: a matrix product is `sw.sum(W * sw.rename(h, d="e"), "e")`')

    __rfloordiv__, __rmod__, __rdivmod__, __rmatmul__ = __floordiv__, __mod__, __divmod__, __matmul__
