"""Scalar operations of the reference semantics, against Python's integers and floats, bit patterns and torch."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func
from xdsl.dialects import math as math_dialect
from xdsl.parser import Parser

from scanweaver.interpreters import make_interpreter, run_module
from scanweaver.interpreters.lanes import Lanes
from scanweaver.interpreters.scalars import round_to_bfloat16


def evaluate(op: str, types: Sequence[str], result: str, *arrays: np.ndarray) -> np.ndarray:
    """`op` of xDSL's text, with operands %a, %b, %c, on whole arrays."""
    names = ["%a", "%b", "%c"][: len(types)]
    args = ", ".join(f"{name}: {type}" for name, type in zip(names, types, strict=True))
    text = f"func.func @f({args}) -> {result} {{\n  %r = {op}\n  return %r : {result}\n}}"
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, math_dialect.Math):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    with np.errstate(all="ignore"):
        (value,) = make_interpreter(module).call_op("f", tuple(Lanes(array, ("i",)) for array in arrays))
    assert isinstance(value, Lanes) and value.axes == (("i",) if arrays else ())
    return value.data


# --- integers ----------------------------------------------------------------------------------------------------

CORNERS = (-128, -127, -7, -2, -1, 0, 1, 2, 3, 7, 100, 127)


def wrap(value: int, width: int = 8) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


U = 255
BINARY: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "maxsi": max,
    "minsi": min,
    "maxui": lambda a, b: max(a & U, b & U),
    "minui": lambda a, b: min(a & U, b & U),
    "divsi": truncated,
    "remsi": lambda a, b: a - b * truncated(a, b),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: (a & U) // (b & U),
    "remui": lambda a, b: (a & U) % (b & U),
    "ceildivui": lambda a, b: -(-(a & U) // (b & U)),
    "shli": lambda a, b: a << b,
    "shrsi": lambda a, b: a >> b,
    "shrui": lambda a, b: (a & U) >> b,
}


@pytest.mark.parametrize("name", BINARY)
def test_integer_operations_wrap(name: str) -> None:
    pairs = [(a, b) for a in CORNERS for b in CORNERS]
    if "div" in name or "rem" in name:
        pairs = [(a, b) for a, b in pairs if b and (a, b) != (-128, -1)]
    if name.startswith("sh"):
        pairs = [(a, b) for a, b in pairs if 0 <= b < 8]
    a, b = (np.array(column, np.int8) for column in zip(*pairs, strict=True))
    got = evaluate(f"arith.{name} %a, %b : i8", ["i8", "i8"], "i8", a, b)
    assert got.dtype == np.int8
    assert got.tolist() == [wrap(BINARY[name](x, y)) for x, y in pairs]


@pytest.mark.parametrize("name", ["addi", "muli", "andi", "ori", "xori", "maxsi", "maxui"])
def test_a_true_bit_is_minus_one_where_signed(name: str) -> None:
    pairs = [(x, y) for x in (0, 1) for y in (0, 1)]
    a, b = (np.array(column, np.bool_) for column in zip(*pairs, strict=True))
    got = evaluate(f"arith.{name} %a, %b : i1", ["i1", "i1"], "i1", a, b)
    expected = {"maxsi": lambda x, y: max(-x, -y), "maxui": max} | {k: BINARY[k] for k in ("addi", "muli", "andi")}
    function = expected.get(name) or BINARY[name]
    assert got.dtype == np.bool_
    assert got.tolist() == [bool(function(x, y) & 1) for x, y in pairs]


PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("predicate", ["eq", "ne"] + [s + p for s in "su" for p in ("lt", "le", "gt", "ge")])
def test_integer_comparisons(predicate: str) -> None:
    pairs = [(a, b) for a in CORNERS for b in CORNERS]
    a, b = (np.array(column, np.int8) for column in zip(*pairs, strict=True))
    got = evaluate(f"arith.cmpi {predicate}, %a, %b : i8", ["i8", "i8"], "i1", a, b)
    holds = PREDICATES[predicate[-2:]]
    mask = U if predicate[0] == "u" else -1
    assert got.tolist() == [holds(x & mask, y & mask) for x, y in pairs]


def test_integer_conversions() -> None:
    wide = np.array([-(2**63), -129, -1, 0, 127, 128, 2**31, 2**63 - 1])
    assert evaluate("arith.trunci %a : i64 to i8", ["i64"], "i8", wide).tolist() == [wrap(int(x)) for x in wide]
    assert evaluate("arith.trunci %a : i64 to i1", ["i64"], "i1", wide).tolist() == [bool(x & 1) for x in wide]
    narrow = np.array([-128, -1, 0, 5], np.int8)
    assert evaluate("arith.extsi %a : i8 to i32", ["i8"], "i32", narrow).tolist() == [-128, -1, 0, 5]
    assert evaluate("arith.extui %a : i8 to i32", ["i8"], "i32", narrow).tolist() == [128, 255, 0, 5]
    bits = np.array([False, True])
    assert evaluate("arith.extui %a : i1 to i64", ["i1"], "i64", bits).tolist() == [0, 1]
    assert evaluate("arith.extsi %a : i1 to i64", ["i1"], "i64", bits).tolist() == [0, -1]
    assert evaluate("arith.uitofp %a : i1 to f32", ["i1"], "f32", bits).tolist() == [0.0, 1.0]
    assert evaluate("arith.sitofp %a : i1 to f32", ["i1"], "f32", bits).tolist() == [0.0, -1.0]
    assert evaluate("arith.uitofp %a : i8 to f64", ["i8"], "f64", narrow).tolist() == [128.0, 255.0, 0.0, 5.0]
    floats = np.array([-2.9, -0.5, 0.5, 2.9])
    assert evaluate("arith.fptosi %a : f64 to i32", ["f64"], "i32", floats).tolist() == [-2, 0, 0, 2]
    # 2^24 + 1 lies halfway between two float32, 2^53 + 1 between two float64: to the even one.
    halves = np.array([2**24 + 1, 2**24 + 3, 2**53 + 1])
    assert evaluate("arith.sitofp %a : i64 to f32", ["i64"], "f32", halves).tolist() == [2.0**24, 2.0**24 + 4, 2.0**53]
    assert evaluate("arith.sitofp %a : i64 to f64", ["i64"], "f64", halves[2:]).tolist() == [2.0**53]


# --- floats ------------------------------------------------------------------------------------------------------

SPECIAL = np.array([-np.inf, -2.5, -1.0, -0.0, 0.0, 1.0, 2.5, np.inf, np.nan])


@pytest.mark.parametrize("predicate", ["false", "true", "ord", "uno"] + [o + p for o in "ou" for p in PREDICATES])
def test_float_comparisons(predicate: str) -> None:
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    got = evaluate(f"arith.cmpf {predicate}, %a, %b : f64", ["f64", "f64"], "i1", a, b)
    for x, y, value in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        unordered = math.isnan(x) or math.isnan(y)
        match predicate:
            case "false" | "true":
                expected = predicate == "true"
            case "ord" | "uno":
                expected = unordered == (predicate == "uno")
            case _:
                expected = predicate[0] == "u" if unordered else PREDICATES[predicate[1:]](x, y)
        assert value is expected, (x, predicate, y)


def test_maximum_and_minimum_propagate_nan_and_order_zeros() -> None:
    a = np.array([np.nan, 1.0, -0.0, 0.0, -0.0, 3.0])
    b = np.array([1.0, np.nan, 0.0, -0.0, -0.0, -3.0])

    def run(name: str) -> list[str]:
        return [str(x) for x in evaluate(f"arith.{name} %a, %b : f64", ["f64", "f64"], "f64", a, b).tolist()]

    assert run("maximumf") == ["nan", "nan", "0.0", "0.0", "-0.0", "3.0"]
    assert run("minimumf") == ["nan", "nan", "-0.0", "-0.0", "-0.0", "-3.0"]
    assert run("maxnumf")[:2] == run("minnumf")[:2] == ["1.0", "1.0"]


FUNCTIONS: dict[str, tuple[Callable[..., float], float, float]] = {
    "absf": (abs, -3, 3),
    "atan": (math.atan, -3, 3),
    "ceil": (math.ceil, -3, 3),
    "cos": (math.cos, -9, 9),
    "erf": (math.erf, -3, 3),
    "exp": (math.exp, -80, 80),
    "exp2": (lambda x: 2.0**x, -80, 80),
    "expm1": (math.expm1, -1, 1),
    "floor": (math.floor, -3, 3),
    "log": (math.log, 1e-3, 50),
    "log10": (math.log10, 1e-3, 50),
    "log1p": (math.log1p, -0.9, 3),
    "log2": (math.log2, 1e-3, 50),
    "roundeven": (round, -3, 3),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 1e-3, 50),
    "sin": (math.sin, -9, 9),
    "sqrt": (math.sqrt, 0, 50),
    "tanh": (math.tanh, -3, 3),
    "trunc": (math.trunc, -3, 3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_rounded_once(name: str) -> None:
    function, low, high = FUNCTIONS[name]
    x = np.linspace(low, high, 501).astype(np.float32)
    got = evaluate(f"math.{name} %a : f32", ["f32"], "f32", x)
    expected = np.array([function(float(v)) for v in x])
    assert got.dtype == np.float32
    assert np.all(np.abs(got - expected) <= 0.5000001 * np.spacing(np.abs(expected).astype(np.float32)))


def test_binary_and_ternary_functions() -> None:
    a, b = np.array([2.0, 9.0, -8.0], np.float32), np.array([10.0, 0.5, 3.0], np.float32)
    two = ["f32", "f32"]
    assert evaluate("math.powf %a, %b : f32", two, "f32", a, b).tolist() == [1024.0, 3.0, -512.0]
    assert evaluate("math.copysign %a, %b : f32", two, "f32", a, -b).tolist() == [-2.0, -9.0, -8.0]
    assert evaluate("math.round %a : f64", ["f64"], "f64", np.array([-2.5, 0.5, 0.49999999999999994])).tolist() == [
        -3.0,
        1.0,
        0.0,
    ]
    # (1 + e)(1 - e) - 1 = -e^2 is lost where the product is rounded before the sum.
    e = 2.0**-13
    a, b, c = np.float32([1 + e]), np.float32([1 - e]), np.float32([-1])
    assert evaluate("math.fma %a, %b, %c : f32", ["f32"] * 3, "f32", a, b, c).tolist() == [-(e**2)]
    separate = evaluate("arith.mulf %a, %b : f32", two, "f32", a, b)
    assert evaluate("arith.addf %a, %b : f32", two, "f32", separate, c).tolist() == [0.0]


@pytest.mark.parametrize("type", ["bf16", "f16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_half_arithmetic_as_torch_does_it(name: str, type: str) -> None:
    half = {"bf16": torch.bfloat16, "f16": torch.float16}[type]
    a, b = (torch.randn(4000, generator=torch.Generator().manual_seed(seed)).to(half) for seed in (1, 2))
    expected = getattr(torch, name)(a, b)
    arrays = [x.float().numpy().astype(np.float16 if type == "f16" else np.float32) for x in (a, b)]
    got = evaluate(f"arith.{name}f %a, %b : {type}", [type, type], type, *arrays)
    assert np.array_equal(got.astype(np.float32), expected.float().numpy())


def bfloat16(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def test_bfloat16_numbers_stay() -> None:
    finite = np.array([bfloat16(bits) for bits in range(1 << 16)], np.float32)
    assert np.array_equal(
        round_to_bfloat16(finite).view(np.uint32)[~np.isnan(finite)], finite.view(np.uint32)[~np.isnan(finite)]
    )
    assert np.all(np.isnan(round_to_bfloat16(finite[np.isnan(finite)])))


def test_bfloat16_rounds_to_nearest_even_once() -> None:
    for bits in [0, 1, 2, 0x7F, 0x80, 0x81, 0x3F7F, 0x3F80, 0x3F81, 0x7F7E]:
        low, high = bfloat16(bits), bfloat16(bits + 1)
        middle = (low + high) / 2
        # Off the middle by less than a float32 can say: rounding to float32 first would lose the side.
        values = np.array([low, middle * (1 - 2.0**-40), middle, middle * (1 + 2.0**-40), high])
        expected = [low, low, high if bits & 1 else low, high, high]
        assert round_to_bfloat16(values).tolist() == expected
        assert round_to_bfloat16(-values).tolist() == [-x for x in expected]
    largest = bfloat16(0x7F7F)
    with np.errstate(over="ignore"):
        got = round_to_bfloat16(np.array([largest * (1 + 2.0**-10), largest * (1 + 2.0**-8), -1e300]))
    assert got.tolist() == [largest, np.inf, -np.inf]


def test_float_conversions() -> None:
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 70000.0, 1e-30])
    assert evaluate("arith.truncf %a : f64 to bf16", ["f64"], "bf16", x)[:2].tolist() == [1 + 2.0**-7, 1.0]
    assert evaluate("arith.truncf %a : f64 to f16", ["f64"], "f16", x).tolist()[2:] == [np.inf, 0.0]
    assert evaluate("arith.extf %a : f16 to f32", ["f16"], "f32", np.float16([0.1])).tolist() == [np.float16(0.1)]


def test_bitcast() -> None:
    def cast(source: str, target: str, *values: Any, dtype: Any) -> list[Any]:
        op = f"arith.bitcast %a : {source} to {target}"
        return evaluate(op, [source], target, np.array(values, dtype)).tolist()

    assert cast("f32", "i32", 1.0, -0.0, dtype=np.float32) == [0x3F800000, -(2**31)]
    assert cast("i64", "f64", 0x3FF0000000000000, dtype=np.int64) == [1.0]
    assert cast("bf16", "i16", 1.0, -2.0, dtype=np.float32) == [0x3F80, 0xC000 - 2**16]
    assert cast("i16", "bf16", 0x3F80, 0xC000 - 2**16, dtype=np.int16) == [1.0, -2.0]
    assert cast("f16", "bf16", 1.0, dtype=np.float16) == [bfloat16(0x3C00)]


def test_select_and_constants() -> None:
    ok, a, b = np.array([True, False]), np.array([np.nan, 1.0]), np.array([2.0, np.nan])
    got = evaluate("arith.select %a, %b, %c : f64", ["i1", "f64", "f64"], "f64", ok, a, b)
    assert np.isnan(got).all()
    got = evaluate("arith.select %a, %b, %c : f64", ["i1", "f64", "f64"], "f64", ~ok, a, b)
    assert got.tolist() == [2.0, 1.0]
    assert evaluate("arith.constant true", [], "i1").item() is True
    assert evaluate("arith.constant -1 : i8", [], "i8").item() == -1
    assert evaluate("arith.constant 0.1 : bf16", [], "bf16").item() == torch.tensor(0.1).bfloat16().item()
    assert evaluate("arith.constant 0.1 : f32", [], "f32").dtype == np.float32


def test_run_module_takes_and_gives_numbers() -> None:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith):
        ctx.load_dialect(dialect)
    text = "func.func @f(%a: f32, %b: f32) -> f32 {\n %c = arith.addf %a, %b : f32\n return %c : f32\n}"
    (value,) = run_module(Parser(ctx, text).parse_module(), "f", 1, 0.1)
    assert value.dtype == np.float32 and value == np.float32(1) + np.float32(0.1)
