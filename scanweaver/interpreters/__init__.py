"""Reference semantics: any module of `recurrence` and `scan` on NumPy arrays.

The oracle of the passes' tests: the same inputs give the same results before and after a pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, FunctionType, MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter
from xdsl.interpreters.func import FuncFunctions
from xdsl.ir import Attribute

from scanweaver.dialects.iteration import element_type
from scanweaver.errors import SignatureError
from scanweaver.interpreters.lanes import Lanes
from scanweaver.interpreters.recurrence import RecurrenceFunctions
from scanweaver.interpreters.scalars import ScalarFunctions, dtype_of, rounded
from scanweaver.interpreters.scan import Order, ScanFunctions

__all__ = ["make_interpreter", "run_module"]


def make_interpreter(module: ModuleOp, order: Order = "tree") -> Interpreter:
    """An interpreter of functions, scalar operations, `recurrence` and `scan`; `order` as in `ScanFunctions`."""
    interpreter = Interpreter(module)
    for functions in (FuncFunctions(), ScalarFunctions(), RecurrenceFunctions(), ScanFunctions(order)):
        interpreter.register_implementations(functions)
    return interpreter


def run_module(module: ModuleOp, name: str, *arrays: Any, order: Order = "tree") -> tuple[Any, ...]:
    """The results of function `name` on arrays and numbers, one per argument.

    Tensors and memrefs are NumPy arrays and stay as they are; scalars are numbers. bfloat16 arrays are given as any
    floating array, rounded to nearest even, and come back as float32 arrays of bfloat16 numbers; i1 is bool. `order`
    says how `scan.generic` combines: "tree" or "fold".

    Raises SignatureError where the arrays do not fit the function's type.
    """
    interpreter = make_interpreter(module, order)
    function = interpreter.get_op_for_symbol(name)
    if not isinstance(function, FuncOp):
        raise SignatureError(f"'{name}' is a {function.name}, not a function")
    type: FunctionType = function.function_type
    if len(arrays) != len(type.inputs):
        raise SignatureError(f"{name} takes {len(type.inputs)} arguments, got {len(arrays)}")
    args = [_argument(i, value, t) for i, (value, t) in enumerate(zip(arrays, type.inputs, strict=True))]
    with np.errstate(all="ignore"):
        results = interpreter.call_op(function, tuple(args))
    return tuple(value.data[()] if isinstance(value, Lanes) else value for value in results)


def _argument(i: int, value: Any, type: Attribute) -> Any:
    array = np.asarray(value)
    scalar = element_type(type)
    shape = type.get_shape() if isinstance(type, TensorType | MemRefType) else ()
    fits = len(shape) == array.ndim and all(
        want in (got, DYNAMIC_INDEX) for want, got in zip(shape, array.shape, strict=True)
    )
    # Arrays are of their kind; a number may be an int where a float is wanted.
    kinds = "fiub" if isinstance(scalar, AnyFloat) and not array.ndim else dtype_of(scalar).kind
    if not fits or array.dtype.kind not in kinds:
        raise SignatureError(f"argument {i} must be {type}, got an array of shape {array.shape} and type {array.dtype}")
    array = rounded(array, scalar)
    return array if isinstance(type, TensorType | MemRefType) else Lanes(array, ())
