"""`sw.from_mlir`: texts of our dialects, called like the recurrences that they came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from reference import assert_accurate

import scanweaver as sw

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])

WRITTEN = """
// h = a h + x, written by hand: the start is an argument, the last state is returned, the steps are the rows' last axis
func.func @decay(%h0: tensor<?xf32>, %a: tensor<?x?xf32>, %x: tensor<?x?xbf16>, %gain: f32)
    -> (tensor<?x?xf32>, tensor<?xf32>) {
  %y, %last = recurrence.generic forward [b: parallel, t: time]
    states(h[b] = %h0[b] : tensor<?xf32>)
    inputs(a = %a[b, t] : tensor<?x?xf32>, x = %x[b, t] : tensor<?x?xbf16>, gain = %gain[] : f32)
    results(y[b, t] : tensor<?x?xf32>, last h[b] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %a_t: f32, %x_t: bf16, %g: f32):
    %wide = arith.extf %x_t : bf16 to f32
    %scaled = arith.mulf %g, %wide : f32
    %kept = arith.mulf %a_t, %h : f32
    %new = arith.addf %kept, %scaled : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  func.return %y, %last : tensor<?x?xf32>, tensor<?xf32>
}
"""

REVERSED = """
func.func @one(%x: tensor<?xf32>) -> tensor<?xf32> {
  %start = arith.constant 0.25 : f32
  %y = recurrence.generic reverse [t: time]
    states(h[] = %start[] : f32)
    inputs(x = %x[t] : tensor<?xf32>)
    results(y[t] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %new = arith.addf %h, %x_t : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  func.return %y : tensor<?xf32>
}
"""


def decay(device: str = "cpu") -> tuple[Any, torch.Tensor, torch.Tensor]:
    a, x = torch.rand(2, 4, 50, device=device)
    return sw.from_mlir(WRITTEN), a, x.bfloat16()


@DEVICES
def test_text_written_by_hand(device: str) -> None:
    fn, a, x = decay(device)
    assert str(fn.signature.text) == "h[b]:float32; a[b t], x[b t], gain[] -> y[b t]"
    h0 = torch.rand(4, device=device)
    with poisoned():
        got = fn(a, x, 0.5, init=h0)
    assert_accurate(got, reference.affine, a, 0.5 * x.float(), h0)
    by_name = fn(gain=0.5, x=x, a=a, init=h0)
    assert all(map(torch.equal, got, by_name))
    as_tensor = fn(a, x, torch.tensor(0.5, device=device), init=h0)
    assert all(map(torch.equal, got, as_tensor)), "a scalar may be a 0-d tensor"
    assert torch.equal(fn(a, x, 0.5, init=h0, return_last=False), got[0])
    assert_accurate(fn(a, x, 1, init=2, reverse=True), reference.affine, a, x.float(), 2.0, reverse=True)


def test_what_the_text_says_is_the_default() -> None:
    fn = sw.from_mlir(REVERSED, entry="one")
    x = torch.rand(9)
    backwards = 0.25 + x.double().flip(0).cumsum(0).flip(0)
    torch.testing.assert_close(fn(x).double(), backwards, rtol=1e-6, atol=1e-6)
    forwards = fn(x, reverse=False, init=1.0, return_last=True)
    torch.testing.assert_close(forwards[0].double(), 1 + x.double().cumsum(0), rtol=1e-6, atol=1e-6)
    assert torch.equal(forwards[1], forwards[0][-1])


def test_a_missing_start_and_wrong_dtypes_are_named() -> None:
    fn, a, x = decay()
    for message, args, options in [
        ("init of state `h` of decay: the text takes it as an argument", (a, x, 1.0), {}),
        ("argument `a` of decay: the text says float32, got float64", (a.double(), x, 1.0), {"init": 0}),
        ("argument `x` of decay: the text says bfloat16, got float32", (a, x.float(), 1.0), {"init": 0}),
        ("argument `gain` of decay: the text says float32, got bool", (a, x, True), {"init": 0}),
        ("decay: expected a value for input `gain[]`, got nothing", (a, x), {"init": 0}),
        ("decay takes 3 inputs", (a, x, 1.0, 2.0), {"init": 0}),
        ("axis `t` has size 50", (a, x[:, :3], 1.0), {"init": 0}),
    ]:
        with pytest.raises(sw.SignatureError) as caught:
            fn(*args, **options)
        assert message in str(caught.value)


# --- texts of stages ------------------------------------------------------------------------------------------------


@sw.recurrence("h[b d n], n[b]:int32=3; u[b d t], A[d n], C[b n t], k[b t] -> y[b d t], count[b t]:int8, code[b t]")
def several(h: Any, n: Any, u: Any, A: Any, C: Any, k: Any) -> Any:
    h = sw.exp(A) * h + u
    n = sw.where(k > 2, n + 1, n)
    return (h, n), (sw.sum(C * h, "n"), n, k)


def of_several(device: str) -> list[torch.Tensor]:
    u, A, C = torch.rand(2, 3, 40), -torch.rand(3, 4), torch.rand(2, 4, 40)
    k = torch.randint(0, 5, (2, 40), dtype=torch.uint8)
    return [x.to(device) for x in (u, A, C, k)]


@DEVICES
@pytest.mark.parametrize("stage", ["recurrence", "scan", "scheduled"])
@pytest.mark.parametrize("options", [{}, {"init": (0.5, 1), "return_last": True}, {"reverse": True}], ids=str)
def test_each_stage_gives_the_same_recurrence(stage: str, options: dict[str, Any], device: str) -> None:
    given = of_several(device)
    made = several.artifact(*given)
    fn = sw.from_mlir(made.stages[stage])
    got, want = (list(reference.flat(f(*given, **options))) for f in (fn, several))
    assert [y.dtype for y in got] == [y.dtype for y in want]
    for y, exact in zip(got, want, strict=True):
        torch.testing.assert_close(y, exact, rtol=1e-6, atol=1e-6)


def test_files_and_entries(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(WRITTEN + REVERSED)
    x = torch.rand(5)
    for named in (path, str(path)):
        assert torch.equal(sw.from_mlir(named, "one")(x), sw.from_mlir(REVERSED)(x))
    with pytest.raises(sw.ScanWeaverError, match="expected the name of a function, for the module has decay, one"):
        sw.from_mlir(path)
    with pytest.raises(sw.ScanWeaverError, match="entry='two': the module has no such function; it has decay, one"):
        sw.from_mlir(path, "two")
    with pytest.raises(FileNotFoundError):
        sw.from_mlir(tmp_path / "nothing.mlir")


def test_it_does_all_that_a_recurrence_does(tmp_path: Path) -> None:
    fn, a, x = decay()
    assert "h: affine" in fn.explain("cpu")
    assert "gain * x" in fn.explain("sm_90")
    assert ".visible .entry decay" in fn.ir("ptx", "sm_90")
    fn.compile("cpu").save(tmp_path / "decay.swa")
    loaded = sw.load(tmp_path / "decay.swa")
    got, want = loaded(a, x, 0.5, init=1.0, return_last=True), fn(a, x, 0.5, init=1.0)
    assert all(map(torch.equal, got, want))
    with pytest.raises(sw.SignatureError, match="init of state `h` of decay: this artifact was compiled from a text"):
        loaded(a, x, 0.5)


def test_sizes_that_the_text_fixes_hold_and_others_are_free() -> None:
    fixed = sw.from_mlir(REVERSED.replace("tensor<?xf32>", "tensor<7xf32>"))
    assert fixed(torch.rand(7)).shape == (7,)
    with pytest.raises(sw.SignatureError, match="one: axis `t` has size 7 in the text, and size 8 in this call"):
        fixed(torch.rand(8))

    made = several.artifact(*of_several("cpu"))
    free = sw.from_mlir(made.stages["recurrence"].replace("x4xf32>", "x?xf32>").replace("x4x?xf32>", "x?x?xf32>"))
    u, A, C, k = of_several("cpu")
    assert all(map(torch.equal, free(u, A, C, k), several(u, A, C, k)))
    narrow = (u, A[:, :2], C[:, :2], k)
    assert all(map(torch.equal, free(*narrow), several(*narrow)))


def test_a_proof_and_a_schedule_are_taken_as_they_are() -> None:
    u, A, C, k = of_several("cpu")
    made = several.artifact_for("sm_90", u, A, C, k)
    scheduled = sw.from_mlir(made.stages["scheduled"])
    assert scheduled.ir("scheduled", "sm_90").count("#scan.schedule") == 1
    edited = made.stages["scheduled"].replace("row_warps = ", "row_warps = 1", 1)
    assert "row_warps = 1" in sw.from_mlir(edited).ir("scheduled", "sm_90")
    with pytest.raises(sw.ScanWeaverError, match="the text has a schedule for sm_90, which is taken as it is"):
        scheduled(u, A, C, k)
    with pytest.raises(sw.ScanWeaverError, match="the text has a schedule for sm_90"):
        scheduled.compile("sm_90", strategy="serial")

    refused = sw.from_mlir(several.artifact(u, A, C, k, parallel="never").stages["scan"])
    with pytest.raises(sw.NotAssociativeError, match='parallel="never" was asked for'):
        refused(u, A, C, k, parallel="require")


# --- what it is not for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "text"),
    [
        (sw.ScanWeaverError, "the text is no module of ours: the text:1:", "func.func @f() {"),
        (sw.ScanWeaverError, "the module has none", "module {}\n"),
        (sw.UnsupportedError, "f holds 0 recurrences: expected one", "func.func @f() {\n func.return }"),
        (
            sw.UnsupportedError,
            "f holds arith.addf: expected one recurrence.generic or scan.generic",
            "func.func @f(%a: f32) -> f32 {\n %b = arith.addf %a, %a : f32\n func.return %b : f32 }",
        ),
        (
            sw.UnsupportedError,
            "decay: expected it to return the recurrence's results, all and in order",
            WRITTEN.replace(
                "func.return %y, %last : tensor<?x?xf32>, tensor<?xf32>", "func.return %y : tensor<?x?xf32>"
            ).replace("-> (tensor<?x?xf32>, tensor<?xf32>)", "-> tensor<?x?xf32>"),
        ),
        (sw.ScanWeaverError, "is no module of ours", WRITTEN.replace("inputs(a = %a[b, t]", "inputs(a = %a[b]")),
        (sw.SignatureError, "`h` names two arrays", WRITTEN.replace("inputs(a = ", "inputs(h = ")),
        (
            sw.UnsupportedError,
            "one: output 'y' is sampled; only outputs at every step are built",
            REVERSED.replace("results(y[t] :", "results(sampled 4 y[t] :"),
        ),
    ],
)
def test_what_it_refuses(error: type[Exception], message: str, text: str) -> None:
    with pytest.raises(error) as caught:
        sw.from_mlir(text)
    assert message in str(caught.value)


def test_what_is_no_text(tmp_path: Path) -> None:
    for given in (3, None, b"module {}"):
        with pytest.raises(sw.SignatureError, match=r"sw\.from_mlir: expected text or a path, got"):
            sw.from_mlir(given)  # type: ignore[arg-type]
    (tmp_path / "binary.mlir").write_bytes(b"\x7fELF\xd0\xff")
    with pytest.raises(sw.ScanWeaverError, match=r"binary.mlir is not UTF-8 text"):
        sw.from_mlir(tmp_path / "binary.mlir")
