"""The recipe in its three spellings, the grid's arithmetic, and what lies in a packed parameter buffer."""

from __future__ import annotations

import ctypes
import json
import struct

import pytest

from scanweaver.errors import ScanWeaverError, SignatureError
from scanweaver.gpu_exec.abi import Kernel, Operand, Packing, Param, Recipe, recipe_of


def _recipe(*scalars: Operand) -> Recipe:
    u = Operand("u", "input", ("b", "t"), "f32", contiguous="t", align=16)
    h = Operand("h", "output", ("b", "t"), "bf16")
    params = (
        Param("pointer", 1),
        *(Param("scalar", 2 + i) for i in range(len(scalars))),
        Param("pointer", 0),
        Param("size", axis="t"),
        Param("stride", 1, "t"),
        Param("stride", 0, "b"),
    )
    kernel = Kernel("scan", params, rows=("b",), tiled="t", tile=128, per_block=4, block=256, shared_bytes=64)
    return Recipe("sm_90", (u, h, *scalars), (kernel,))


def test_json_and_attribute_give_the_recipe_back() -> None:
    recipe = _recipe(Operand("g", "input", (), "f32", scalar=True))
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe
    assert Recipe.from_attribute(recipe.to_attribute()) == recipe


def test_a_module_carries_it_through_text() -> None:
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin, ModuleOp
    from xdsl.parser import Parser

    recipe = _recipe(Operand("flag", "input", (), "i1", scalar=True))
    module = ModuleOp([], {"scan.recipe": recipe.to_attribute()})
    context = Context()
    context.load_dialect(Builtin)
    assert recipe_of(Parser(context, str(module)).parse_module()) == recipe


def test_a_missing_or_malformed_recipe_is_refused() -> None:
    from xdsl.dialects.builtin import ModuleOp

    with pytest.raises(ScanWeaverError, match=r"no attribute scan\.recipe"):
        recipe_of(ModuleOp([]))
    good = _recipe().to_json()
    for broken in ({}, good | {"kernels": [{"name": "k"}]}, good | {"operands": [{"name": "x", "colour": 1}]}):
        with pytest.raises(ScanWeaverError, match="malformed"):
            Recipe.from_json(broken)
    with pytest.raises(ScanWeaverError, match="no kernel parameter"):
        Param.parse("stride t")


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        ({"b": 1, "t": 1}, 1),
        ({"b": 4, "t": 128}, 1),
        ({"b": 4, "t": 129}, 2),
        ({"b": 3, "t": 300}, 3),
        ({"b": 0, "t": 5}, 0),
        ({"b": 5, "t": 0}, 0),
        ({"b": 2**31, "t": 2**20}, 2**42),
    ],
)
def test_grid(sizes: dict[str, int], blocks: int) -> None:
    assert _recipe().kernels[0].grid(sizes) == blocks


def test_a_grid_without_a_tiled_axis_counts_rows_alone() -> None:
    kernel = Kernel("k", (), rows=("b", "d"), per_block=8)
    assert kernel.grid({"b": 3, "d": 3, "t": 10**9}) == 2
    assert Kernel("k", (), rows=()).grid({}) == 1


def _packed(recipe: Recipe, values: list[int | float]) -> tuple[Packing, ctypes.Array[ctypes.c_char]]:
    packing = Packing(recipe, {"b": 3, "t": 2**33}, [{"b": -7, "t": 1}, {"b": 5, "t": 0}])
    buffer = ctypes.create_string_buffer(packing.template, len(packing.template))
    packing.write(buffer, values)
    return packing, buffer


def test_every_parameter_lies_in_its_slot() -> None:
    recipe = _recipe(Operand("g", "input", (), "f64", scalar=True))
    packing, buffer = _packed(recipe, [0x7FFF_0000_1000, 2**63 + 8, 0.5])
    read = [
        struct.unpack_from(code, buffer, 8 * packing.slot(param))[0]
        for code, param in zip("QdQqqq", recipe.kernels[0].params, strict=True)
    ]
    assert read == [2**63 + 8, 0.5, 0x7FFF_0000_1000, 2**33, 0, -7]


@pytest.mark.parametrize(
    ("dtype", "value", "code", "stored"),
    [
        ("f32", 0.1, "f", 0.10000000149011612),
        ("f32", 1e300, "f", float("inf")),
        ("f32", -1e300, "f", float("-inf")),
        ("f16", 0.1, "e", 0.0999755859375),
        ("f16", 70000.0, "e", float("inf")),
        ("f64", 1e300, "d", 1e300),
        ("f64", 3, "d", 3.0),
        ("i1", True, "?", True),
        ("i8", -128, "b", -128),
        ("i16", -32768, "h", -32768),
        ("i32", 2**31 - 1, "i", 2**31 - 1),
        ("i64", -(2**63), "q", -(2**63)),
    ],
)
def test_scalars(dtype: str, value: float, code: str, stored: float) -> None:
    recipe = _recipe(Operand("g", "input", (), dtype, scalar=True))
    _, buffer = _packed(recipe, [8, 16, value])
    assert struct.unpack_from("<" + code, buffer, 16)[0] == stored


def test_bf16_rounds_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    recipe = _recipe(Operand("g", "input", (), "bf16", scalar=True))
    edges = [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3e38, 3.4e38, 1e39, -1e39, 1e-40, 0.1, float("-inf")]
    for value in edges + torch.randn(200, dtype=torch.float64).tolist():
        _, buffer = _packed(recipe, [8, 16, value])
        expected = torch.tensor(value, dtype=torch.float32).bfloat16().view(torch.int16).item() & 0xFFFF
        assert struct.unpack_from("<H", buffer, 16)[0] == expected, value
    _, buffer = _packed(recipe, [8, 16, float("nan")])
    assert torch.tensor(struct.unpack_from("<h", buffer, 16), dtype=torch.int16).view(torch.bfloat16).isnan()


@pytest.mark.parametrize(
    ("dtype", "values", "said"),
    [
        ("i32", [8, 16, 2**31], "g: expected one i32; 2147483648 came"),
        ("i64", [8, 16, 0.5], "g: expected one i64; 0.5 came"),
        ("f32", [8, 16, "x"], "g: expected one f32; 'x' came"),
        ("f32", [8, -1, 1.0], "h: expected one address; -1 came"),
        ("bf16", [8, 16], "expected 3 values, one an operand; 2 came"),
    ],
)
def test_wrong_values_are_named(dtype: str, values: list[int | float], said: str) -> None:
    recipe = _recipe(Operand("g", "input", (), dtype, scalar=True))
    with pytest.raises(SignatureError, match=said):
        _packed(recipe, values)
