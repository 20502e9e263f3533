"""Explanations: what was proved, where values are computed, how it runs; held against what the lowering writes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser

import scanweaver as sw
from scanweaver.config import config
from scanweaver.dialects import context_of_all, recurrence, scan
from scanweaver.explain.expressions import formula
from scanweaver.explain.placement import Level, Placement
from scanweaver.frontend.recurrence import Recurrence
from scanweaver.transforms.lower_scan_to_cpu import LowerScanToCpuPass
from scanweaver.transforms.lower_scan_to_gpu import LowerScanToGpuPass
from scanweaver.transforms.skeleton.evaluate import Evaluator


@sw.recurrence("h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]")
def selective(
    h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, *, soft: bool = False
) -> Any:
    if soft:
        dt = sw.softplus(dt)
    h = sw.exp(dt * A) * h + dt * B * u
    y = sw.sum(C * h, "n")
    if D is not None:
        y = y + D * u
    return h, y if z is None else y * sw.silu(z)


@sw.recurrence("S[b k v]; q[b k t], g[b t], w[k], x[b v t] -> o[b v t], norm[b t]")
def attention(S: Any, q: Any, g: Any, w: Any, x: Any) -> Any:
    weights = sw.exp(w) / sw.sum(sw.exp(w), "k")
    S = g * S + weights * x * q
    return S, (sw.sum(q * S, "k") * sw.sigmoid(g), sw.sum(q * q, "k"))


@sw.recurrence("h[b d]; W[d e], x[b d t] -> y[b d t]")
def rnn(h: Any, W: Any, x: Any) -> Any:
    h = sw.tanh(sw.sum(W * sw.rename(h, d="e"), "e") + x)
    return h, h


@sw.recurrence("v[b], past[b]; r[b t], omega[b], beta[b] -> out[b t]")
def garch(v: Any, past: Any, r: Any, omega: Any, beta: Any) -> Any:
    v = omega * (1 - beta) + 0.1 * past * past + beta * v
    return (v, r), v


# --- what is said ---------------------------------------------------------------------------------------------------


def test_the_proof_component_by_component() -> None:
    text = garch.explain("cpu")
    assert re.search(r"\n  past: delay: new does not depend on old\n", text)
    assert re.search(r"\n  v: affine: new = a · old \+ b, and a and b do not depend on it\n", text)
    assert text.index("past: delay") < text.index("v: affine"), "earlier components come first"
    assert re.search(r"a stretch of time of any length is summed up in \d numbers \(f32\)", text)


def test_a_refusal_names_the_operation_the_line_and_the_reason() -> None:
    text = " ".join(rnn.explain("sm_90").split())
    assert "h: not proved associative, so time is walked in order" in text
    assert "because math.tanh is not affine in state 'h' (test_explain.py:" in text
    assert "Time in order: one lane walks a row from step to step." in text


def test_placement_of_the_selective_scan() -> None:
    text = selective.explain("cpu", soft=True)
    _, _, rest = text.partition("Where each value is computed\n")
    section, _, _ = rest.partition("\n\n")
    lines = [re.sub(r" {2,}test_explain.*", "", line) for line in section.splitlines()]
    assert lines == [
        "  once per row",
        "    reads D",
        "  once per row, or once a tile, and position of n",
        "    reads A",
        "  once per step",
        "    reads u, dt, z",
        "    v1 = max(dt, 0) + log1p(exp(-|dt|))",
        "    v2 = v1 * u",
        "    v3 = z < -86",
        "    v4 = exp(where(v3, z + 48, -|z|))",
        "    v5 = where(z < 0, z * v4, z) / (1 + v4) * where(v3, 1.42516404e-21, 1)",
        "  once per step and position of n",
        "    reads B, C",
        "    new h = exp(v1 * A) * h + v2 * B",
        "    v6 = sum over n of (C * new h)",
        "  once per step, after the reduce",
        "    y = (D * u + v6) * v5",
    ]
    assert len(re.findall(r"test_explain\.py:\d+", section)) == 8


def test_the_schedule_in_words_is_the_schedule() -> None:
    text, scheduled = " ".join(selective.explain("sm_90").split()), selective.ir("scheduled", "sm_90")
    found = re.search(r"lanes = (\d+), warps = (\d+), row_lanes = (\d+), row_warps = (\d+), steps = (\d+)", scheduled)
    assert found is not None
    lanes, warps, row_lanes, row_warps, steps = map(int, found.groups())
    tile = lanes * warps * steps
    assert f"take {steps} steps each, a tile of {tile} steps." in text
    assert f"A sequence cut at a multiple of {tile} steps and carried on gives the same bits." in text
    assert f"A block of {32 * warps * row_warps} threads takes {row_lanes * row_warps} rows of [b d]." in text
    assert re.search(rf"ceil\(b \* d / {row_lanes * row_warps}\) blocks, {32 * warps * row_warps} threads", text)
    assert re.search(r"\d+ registers a thread, (nothing|\d+ bytes) spilled", text)
    assert "u, dt, B, C, z, y: contiguous along t, 16 bytes aligned" in text


def test_blelloch_serial_and_reverse_are_said() -> None:
    assert "Blelloch's up-sweep and down-sweep" in " ".join(garch.explain("sm_90", strategy="blelloch").split())
    serial = garch.explain("sm_90", strategy="serial", reverse=True)
    assert "Time runs from the last step to the first." in serial
    assert "A sequence cut anywhere and carried on (init=, return_last=) gives the same bits." in serial


# --- what it is of --------------------------------------------------------------------------------------------------


def test_after_a_call_it_is_of_that_call() -> None:
    @sw.recurrence("h[b]; x[b t], a[b]")
    def walk(h: Any, x: Any, a: Any) -> Any:
        return a * h + x

    before = walk.explain()
    assert "How it runs on sm_90" in before or torch.cuda.is_available()
    x, a = torch.rand(20, 3, dtype=torch.float64).mT, torch.rand(3, dtype=torch.float64)
    walk(x, a, reverse=True)
    text = walk.explain()
    assert "How it runs on cpu" in text
    assert "sm_90" not in text
    assert "Time runs from the last step to the first." in text
    assert "(f64)" in text
    assert "contiguous along b" in text
    assert walk.ir("asm") == walk.artifact(x, a, reverse=True).stages["asm"]
    assert "How it runs on sm_80" in walk.explain("sm_80")
    assert "(f32)" in walk.explain("cpu"), "a target is asked for: no call is looked at"


def test_every_stage_has_its_text() -> None:
    signs = {
        "recurrence": "recurrence.generic",
        "scan": "scan.component",
        "scheduled": "#scan.schedule",
        "gpu": "gpu.func",
        "nvvm": "nvvm.",
        "ptx": ".visible .entry",
        "cpu": "func.func",
        "llvm": "define ",
        "asm": ".text",
    }
    for stage, sign in signs.items():
        target = "cpu" if stage in ("cpu", "llvm", "asm") else "sm_90"
        assert sign in garch.ir(stage, target), stage
        if not torch.cuda.is_available():
            assert garch.ir(stage) == garch.ir(stage, target), "the stage says which target is meant"
    with pytest.raises(sw.ScanWeaverError, match=r"garch has the stages recurrence, scan, .*, got 'sass'"):
        garch.ir("sass")
    with pytest.raises(sw.ScanWeaverError, match=r"garch, for cpu, has the stages recurrence, .*; got 'ptx'"):
        garch.ir("ptx", "cpu")


def test_sizes_dtypes_and_constants_may_be_given() -> None:
    text = selective.ir("recurrence", dtypes={"u": torch.bfloat16}, sizes={"n": 4}, soft=True)
    assert "%u: tensor<?x?x?xbf16>" in text
    assert "%A: tensor<?x4xf32>" in text
    assert "math.log1p" in text
    assert "math.log1p" not in selective.ir("recurrence", soft=False)
    with pytest.raises(sw.SignatureError, match="got `sooft`: did you mean `soft`"):
        selective.explain(sooft=True)
    with pytest.raises(sw.UnsupportedError, match="target 'tpu' is not known"):
        selective.explain("tpu")


def test_upper_stages_and_the_explanation_need_no_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(config, "mlir_opt", tmp_path / "nowhere")
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    for stage in ("recurrence", "scan", "scheduled"):
        assert selective.ir(stage, "sm_90")
    assert "gpu.func" in selective.ir("gpu", "sm_90")
    text = selective.explain("sm_90")
    assert "h: affine" in text
    assert "No binary was made: what the kernel takes is not known here." in text
    with pytest.raises(sw.ToolchainError, match="mlir-opt was not found"):
        selective.ir("ptx", "sm_90")


def test_remarks_say_the_same() -> None:
    remarks = rnn.explanation("sm_90").remarks
    assert {remark["function"] for remark in remarks} == {"rnn"}
    (proof,) = (remark for remark in remarks if remark["kind"] == "proof")
    assert (proof["states"], proof["proved"], proof["algebra"]) == (["h"], False, "sequential")
    (schedule,) = (remark for remark in remarks if remark["kind"] == "schedule")
    assert (schedule["lanes"], schedule["warps"]) == (1, 1)
    (kernel,) = (remark for remark in remarks if remark["kind"] == "kernel")
    assert kernel["resources"]["registers"] > 0
    (tanh,) = (remark for remark in remarks if remark.get("operation") == "math.tanh")
    assert (tanh["level"], tanh["name"], tanh["axes"]) == ("state_and_step", "new h", ["b", "d", "t"])
    assert tanh["source"].startswith("test_explain.py:")


# --- held against the lowering --------------------------------------------------------------------------------------


def _parsed(text: str) -> ModuleOp:
    return Parser(context_of_all(), text).parse_module()


def _named(op: scan.GenericOp) -> Iterator[tuple[tuple[str, int], SSAValue]]:
    """The values of prelude and step by region and position."""
    for region, block in (("prelude", op.prelude.block), ("step", op.step.block)):
        for i, inner in enumerate(block.ops):
            if inner.results and not isinstance(inner, arith.ConstantOp | recurrence.ReduceOp | recurrence.RenameOp):
                yield (region, i), inner.results[0]


def _written(text: str, target: str, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], set[frozenset[str]]]:
    """The axes of the loops around each value of a scheduled scan, as the lowering writes it."""
    found: dict[tuple[str, int], set[frozenset[str]]] = {}
    names: dict[SSAValue, tuple[str, int]] = {}
    original = Evaluator._written

    def recording(self: Evaluator, value: SSAValue, k: int) -> SSAValue:
        if not names:
            names.update({value: name for name, value in _named(self.op)})
        if value in names and value not in self.kept:
            bound = frozenset(axis for scope in self.write.scope.chain() for axis in scope.bound)
            found.setdefault(names[value], set()).add(bound)
        return original(self, value, k)

    monkeypatch.setattr(Evaluator, "_written", recording)
    module = _parsed(text)
    (LowerScanToCpuPass() if target == "cpu" else LowerScanToGpuPass()).apply(Context(), module)
    return found


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
@pytest.mark.parametrize("strategy", ["auto", "serial"])
@pytest.mark.parametrize("program", [selective, attention, rnn, garch], ids=lambda program: program.name)
def test_values_are_computed_where_it_says(
    program: Recurrence, strategy: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = program.ir("scheduled", target, strategy=strategy)
    (op,) = (inner for inner in _parsed(text).walk() if isinstance(inner, scan.GenericOp))
    placement = Placement(op)
    states, time = set(placement.states), op.time_axis
    loops = _written(text, target, monkeypatch)
    seen = set[Level]()
    for name, value in _named(op):
        level = placement.level(value)
        if name not in loops:
            continue  # regions that nothing reads
        seen.add(level)
        for bound in loops[name]:
            timed = time in bound
            if level is Level.ROW_AND_STATE:
                assert not timed or target != "cpu", name
            else:
                assert timed == (level in (Level.STEP, Level.STATE_AND_STEP, Level.AFTER_REDUCE)), (name, level)
            if program is not rnn:  # where a renamed axis stands at another one's position
                assert bound & states == placement.axes[value] & states, (name, level)
    assert len(seen) >= {"selective": 3, "attention": 4, "rnn": 1, "garch": 2}[program.name]


# --- formulas -------------------------------------------------------------------------------------------------------


def test_formulas_keep_the_order_of_rounding() -> None:
    text = """
    func.func @f(%a: f32, %b: f32, %c: f32, %i: i64, %p: i1) {
      %s = arith.addf %b, %c : f32
      %t = arith.addf %a, %s : f32
      %u = arith.mulf %t, %c : f32
      %v = arith.divf %a, %u : f32
      %n = arith.negf %s : f32
      %k = arith.constant 2.5 : f32
      %w = arith.mulf %k, %n : f32
      %o = arith.cmpf olt, %w, %a : f32
      %q = arith.cmpf uno, %a, %a : f32
      %m = arith.maximumf %a, %w : f32
      %x = arith.select %o, %m, %b : f32
      %f = arith.sitofp %i : i64 to f32
      %g = math.fma %a, %s, %f : f32
      %l = arith.cmpi ule, %i, %i : i64
      func.return
    }"""
    module = _parsed(text)
    names = {
        argument: argument.name_hint or "" for op in module.walk() for r in op.regions for argument in r.block.args
    }

    def of(value: SSAValue) -> tuple[str, int]:
        if value in names:
            return names[value], 0
        assert isinstance(value.owner, Operation)
        return formula(value.owner, of)

    found = {op.results[0].name_hint: of(op.results[0])[0] for op in module.walk() if op.results}
    assert found == {
        "s": "b + c",
        "t": "a + (b + c)",
        "u": "(a + (b + c)) * c",
        "v": "a / ((a + (b + c)) * c)",
        "n": "-(b + c)",
        "k": "2.5",
        "w": "2.5 * -(b + c)",
        "o": "2.5 * -(b + c) < a",
        "q": "isnan(a)",
        "m": "max(a, 2.5 * -(b + c))",
        "x": "where(2.5 * -(b + c) < a, max(a, 2.5 * -(b + c)), b)",
        "f": "f32(i)",
        "g": "a * (b + c) + f32(i)",
        "l": "i <= i",
    }


# --- the remark -----------------------------------------------------------------------------------------------------


def test_time_order_that_nobody_asked_for_is_remarked_once(caplog: pytest.LogCaptureFixture) -> None:
    @sw.recurrence("h[b]; x[b t]")
    def squares(h: Any, x: Any) -> Any:
        return h * h + x

    x = torch.rand(2, 5)
    with caplog.at_level(logging.INFO, logger="scanweaver"):
        squares(x, parallel="never")
        assert not caplog.records, "it was asked for"
        squares(x)
        squares(x, reverse=True)
        squares(x.double())
    (record,) = caplog.records
    assert record.name == "scanweaver"
    message = record.getMessage()
    assert message.startswith("squares: runs in time order, one fused kernel: state h: ")
    assert "multiplies two values that depend on state 'h'" in message
    assert "test_explain.py:" in message


def test_what_was_proved_is_not_remarked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="scanweaver"):
        garch(torch.rand(2, 5), torch.rand(2), torch.rand(2))
        garch.explain("sm_90")
        rnn.explain("cpu")
    assert not caplog.records, "an explanation says it itself"


def test_a_stage_that_the_last_call_did_not_have_is_made_for_a_target_that_has_it() -> None:
    recurrence = sw.recurrence("h[b]; x[b t]")(lambda h, x: 0.5 * h + x)
    recurrence(torch.ones(2, 3))
    assert recurrence.ir("cpu") and ".target sm_" in recurrence.ir("ptx")


@pytest.mark.parametrize("option", [{"cu_seqlens": True}, {"autotune": True}, {"group": 1}])
def test_compiling_for_what_is_not_built_yet_says_so(option: dict[str, Any]) -> None:
    recurrence = sw.recurrence("h[b]; x[b t]")(lambda h, x: 0.5 * h + x)
    with pytest.raises(sw.UnsupportedError, match=f"{next(iter(option))}= is not built yet"):
        recurrence.compile("cpu", dtypes=torch.float32, **option)
    if "cu_seqlens" not in option:
        with pytest.raises(sw.UnsupportedError, match=f"{next(iter(option))}= is not built yet"):
            sw.recurrence("h[b]; x[b t]", **option)
