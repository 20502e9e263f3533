"""What `convert-recurrence-to-scan` proves, and what it refuses with which operation, reason and source line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import scanweaver as sw
from scanweaver.dialects.recurrence import Recurrence
from scanweaver.dialects.scan import GenericOp
from scanweaver.frontend.signature import parse_signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.trace import trace_step
from scanweaver.transforms.convert_recurrence_to_scan import ConvertRecurrenceToScanPass

Found = list[tuple[str, str]]
"""Components in order: the algebra, and the states' names."""


def traced(text: str, step: Callable[..., Any], **dtypes: str) -> ModuleOp:
    """The module of a step; inputs are float32 unless `dtypes` says otherwise."""
    signature = parse_signature(text)
    inputs = tuple(Given(array.name, array.axes, dtypes.get(array.name, "f32")) for array in signature.inputs)
    module = trace_step(step, signature, Specialization(inputs, (None,) * len(signature.states)))
    module.verify()
    return module


def scan(module: ModuleOp, parallel: str = "auto") -> GenericOp:
    ConvertRecurrenceToScanPass(parallel).apply(Context(), module)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, GenericOp))


def found(generic: GenericOp) -> Found:
    names = [name.data for name in generic.state_names]
    return [(c.algebra.data, " ".join(names[i] for i in c.state_indices)) for c in generic.component_ops]


def proof(text: str, step: Callable[..., Any], **dtypes: str) -> Found:
    return found(scan(traced(text, step, **dtypes)))


def refusal(text: str, step: Callable[..., Any], **dtypes: str) -> str:
    """The reason of the only component that is refused."""
    generic = scan(traced(text, step, **dtypes))
    (reason,) = (c.reason.data for c in generic.component_ops if c.reason is not None)
    return reason


def parsed(body: str, states: str = "h[] = %zero[] : f32", block: str = "%h: f32, %x: f32", results: str = "") -> str:
    return f"""func.func @f(%t: tensor<?xf32>) {{
      %zero = arith.constant 0.0 : f32
      recurrence.generic forward [t: time] states({states}) inputs(x = %t[t] : tensor<?xf32>) results({results}) {{
      ^bb0({block}):
        {body}
      }}
      return
    }}"""


def module_of(text: str) -> ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, math.Math, Recurrence):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


# --- proved -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        lambda h, p, q: p * h + q,
        lambda h, p, q: h * p - q,
        lambda h, p, q: q - h,
        lambda h, p, q: -h,
        lambda h, p, q: h / p + q,
        lambda h, p, q: (h - p) * q + (q + h) * sw.exp(p),
        lambda h, p, q: h + h + h,
        lambda h, p, q: 0.9 * h + 0.1 * q,
        lambda h, p, q: sw.where(p > 0, h, q),
        lambda h, p, q: sw.where(p > q, p * h, h - q),
        lambda h, p, q: sw.where(p > 0, sw.where(q > 0, h, 2 * h), q) + h,
        lambda h, p, q: sw.tanh(p) * (h + sw.where(q > 0, h, 0)) / sw.softplus(q),
    ],
)
def test_affine_steps(step: Callable[..., Any]) -> None:
    assert proof("h[]; p[t], q[t]", step) == [("affine", "h")]


def test_a_fused_multiply_add_in_text() -> None:
    text = "%new = math.fma %x, %h, %x : f32\n recurrence.yield states(%new : f32) outputs()"
    assert found(scan(module_of(parsed(text)))) == [("affine", "h")]
    text = "%new = math.fma %x, %x, %h : f32\n recurrence.yield states(%new : f32) outputs()"
    assert found(scan(module_of(parsed(text)))) == [("affine", "h")]
    text = "%new = math.fma %h, %h, %x : f32\n recurrence.yield states(%new : f32) outputs()"
    (component,) = scan(module_of(parsed(text))).component_ops
    assert component.reason is not None
    assert component.reason.data == "math.fma multiplies two values that depend on state 'h'"


def test_outputs_may_be_anything() -> None:
    def step(h: Any, x: Any) -> Any:
        new = 0.5 * h + x
        return new, sw.tanh(new * h) + sw.where(h > 0, new * new, h / new)

    assert proof("h[]; x[t] -> y[t]", step) == [("affine", "h")]


def test_a_state_that_never_reads_itself_is_a_delay() -> None:
    assert proof("x1[]; x[t]", lambda x1, x: x) == [("delay", "x1")]
    assert proof("x1[]; x[t]", lambda x1, x: sw.tanh(x)) == [("delay", "x1")]
    assert proof("x1[], x2[]; x[t]", lambda x1, x2, x: (x, x1)) == [("delay", "x1"), ("delay", "x2")]
    assert proof("n[]:int32; k[t]", lambda n, k: sw.cast(k, torch.int32), k="i64") == [("delay", "n")]
    assert proof("open[]:bool; k[t]", lambda open, k: k > 0) == [("delay", "open")]


def test_a_state_that_is_kept_is_affine() -> None:
    assert proof("c[b]=1; x[b t] -> y[b t]", lambda c, x: (c, c * x)) == [("affine", "c")]


def test_chains_take_states_in_the_order_they_are_read() -> None:
    """The order is that of the dependence and not of the signature."""
    chain = proof("c[], b[], a[]; x[t]", lambda c, b, a, x: (c + b, b + a, a + x))
    assert chain == [("affine", "a"), ("affine", "b"), ("affine", "c")]


def test_later_states_take_earlier_ones_old_and_new_through_anything() -> None:
    def step(m: Any, g: Any, d: Any, x: Any) -> Any:
        new = 0.9 * m + x
        return new, sw.exp(m) * g + sw.tanh(new * m), sw.where(m > new, new * new, x)

    generic = scan(traced("m[], g[], d[]; x[t]", step))
    assert found(generic) == [("affine", "m"), ("affine", "g"), ("delay", "d")]
    later = generic.component_ops[1]
    assert later.lift.block.args[0].type == generic.state_types[0]
    assert [op.name for op in later.lift.block.ops if op.name.startswith("math.")] == ["math.exp", "math.tanh"]


def test_later_states_take_earlier_ones_through_a_reduce() -> None:
    def step(h: Any, m: Any, a: Any, x: Any) -> Any:
        new = a * h + x
        return new, 0.5 * m + sw.sum(new * h, "n") + sw.max(h, "n")

    assert proof("h[b n], m[b]; a[n], x[b t]", step) == [("affine", "h"), ("affine", "m")]


def test_a_later_delay_keeps_an_earlier_state() -> None:
    assert proof("h[], h1[]; x[t]", lambda h, h1, x: (0.5 * h + x, h)) == [("affine", "h"), ("delay", "h1")]
    # Read back, it is one of two states that depend on each other.
    pair = proof("h[], h1[]; x[t]", lambda h, h1, x: (1.5 * h - 0.6 * h1 + x, h))
    assert pair == [("affine", "h h1")]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_coupled_states_are_a_matrix(size: int) -> None:
    """A ring: each reads the one before it. The element is size² coefficients and `size` offsets."""

    def step(*values: Any) -> Any:
        states, (a, x) = values[:size], values[size:]
        return tuple(a * states[i - 1] + x for i in range(size))

    names = " ".join(f"s{i}" for i in range(size))
    generic = scan(traced(f"{', '.join(f's{i}[]' for i in range(size))}; a[t], x[t]", step))
    assert found(generic) == [("affine", names)]
    (component,) = generic.component_ops
    assert [str(type) for type in component.element_types] == ["f32"] * (size * size + size)


def test_components_beside_each_other() -> None:
    """Two pairs of coupled states and a lone one in between."""

    def step(a: Any, b: Any, c: Any, d: Any, e: Any, x: Any) -> Any:
        return b + x, a - x, 0.5 * c + a * b, e * c, d + a

    pairs = proof("a[], b[], c[], d[], e[]; x[t]", step)
    assert pairs == [("affine", "a b"), ("affine", "c"), ("affine", "d e")]


# --- resets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "flagged"),
    [
        (lambda h, r, s, x: sw.where(r, x, h + x), True),
        (lambda h, r, s, x: sw.where(r, h + x, x), True),
        (lambda h, r, s, x: sw.where(r, h, sw.where(s, x, h * x)), True),
        (lambda h, r, s, x: sw.where(r, sw.where(s, x, 0), h), True),
        (lambda h, r, s, x: x * sw.where(r, 0, h) + x, True),
        (lambda h, r, s, x: sw.where(s, 2 * sw.where(r, 0, h), x), True),
        (lambda h, r, s, x: sw.where(r, h, 0) + sw.where(s, 0, h), True),
        # Where the state takes part in every case there is nothing to forget.
        (lambda h, r, s, x: sw.where(r, h, x * h), False),
        (lambda h, r, s, x: sw.where(r, 0, h) + h, False),
        (lambda h, r, s, x: sw.where(r, x, 1) * h, False),
    ],
)
def test_resets_are_flags_and_not_zeros(step: Callable[..., Any], flagged: bool) -> None:
    generic = scan(traced("h[]; r[t], s[t], x[t]", step, r="i1", s="i1"))
    assert found(generic) == [("affine", "h")]
    types = [str(type) for type in generic.component_ops[0].element_types]
    assert types == ["f32", "f32", "f32", *(["i1"] if flagged else [])]


# --- refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda h, x: h * h + x, "arith.mulf multiplies two values that depend on state 'h'"),
        (lambda h, x: (h + x) * (x - h), "arith.mulf multiplies two values that depend on state 'h'"),
        (lambda h, x: sw.tanh(h + x), "math.tanh is not affine in state 'h'"),
        (lambda h, x: sw.exp(h), "math.exp is not affine in state 'h'"),
        (lambda h, x: sw.maximum(h, x), "arith.maximumf is not affine in state 'h'"),
        (lambda h, x: x / (1 + h), "arith.divf divides by a value that depends on state 'h'"),
        (lambda h, x: sw.where(h > 0, x, 0), "arith.select has a condition that depends on state 'h'"),
        (lambda h, x: sw.where((h > x) & (x > 0), h, x), "arith.select has a condition that depends on state 'h'"),
        (lambda h, x: abs(h) + x, "math.absf is not affine in state 'h'"),
    ],
)
def test_refusals(step: Callable[..., Any], reason: str) -> None:
    got = refusal("h[]; x[t]", step)
    assert got.startswith(f"{reason} (test_proof.py:"), got


def test_the_reason_shows_the_line_of_the_step() -> None:
    def step(h: Any, x: Any) -> Any:
        kept = 0.5 * h
        bent = sw.tanh(kept)  # here
        return bent + x

    assert step.__code__.co_firstlineno > 0
    line = step.__code__.co_firstlineno + 2
    assert refusal("h[]; x[t]", step) == (
        f"math.tanh is not affine in state 'h' (test_proof.py:{line}: bent = sw.tanh(kept)  # here)"
    )


def test_a_reduce_or_rename_of_the_state_mixes_it() -> None:
    def dense(h: Any, W: Any, x: Any) -> Any:
        return sw.sum(W * sw.rename(h, d="e"), "e") + x

    assert refusal("h[d]; W[d e], x[d t]", dense).startswith("recurrence.reduce mixes state 'h' along e (")
    assert refusal("h[d]; W[d e], x[d t]", dense).endswith(': return sw.sum(W * sw.rename(h, d="e"), "e") + x)')
    assert refusal("h[d]; x[d t]", lambda h, x: h - sw.sum(h, "d") * x).startswith(
        "recurrence.reduce mixes state 'h' along d ("
    )
    assert refusal("h[d]; x[d t]", lambda h, x: h - sw.max(h, "d") * x).startswith(
        "recurrence.reduce is not affine in state 'h' ("
    )
    assert refusal("h[d]; k[t]", lambda h, k: sw.take(h, k, "d"), k="i64").startswith(
        "recurrence.take is not affine in state 'h' ("
    )


def test_five_states_that_depend_on_each_other() -> None:
    def step(a: Any, b: Any, c: Any, d: Any, e: Any, x: Any) -> Any:
        return b, c, d, e, a + x

    got = refusal("a[], b[], c[], d[], e[]; x[t]", step)
    assert got == ("states 'a', 'b', 'c', 'd', 'e' depend on each other; a matrix of at most 4 states is proved")


def test_states_that_are_rounded_to_a_narrower_type() -> None:
    got = refusal("h[]:float32; x[t]", lambda h, x: 0.5 * h + x, x="f64")
    assert got.startswith("arith.truncf is not affine in state 'h'"), got
    assert refusal("h[]:bfloat16; x[t]", lambda h, x: 0.5 * h + x).startswith("arith.truncf is not affine")


def test_integer_states() -> None:
    reason = "state 'n': the affine algebra is over floats of one type"
    assert refusal("n[]:int64; k[t]", lambda n, k: n + k, k="i64") == reason
    assert refusal("n[]:bool; k[t]", lambda n, k: n | k, k="i1") == reason


def test_states_of_two_types_that_depend_on_each_other() -> None:
    def step(n: Any, h: Any, x: Any) -> Any:
        return sw.cast(h, torch.int32), h + n + x

    got = refusal("n[]:int32, h[]; x[t]", step)
    assert got == "states 'n', 'h': the affine algebra is over floats of one type"


def test_a_refused_component_leaves_the_others_proved() -> None:
    def step(h: Any, g: Any, d: Any, x: Any) -> Any:
        new = sw.tanh(h + x)
        return new, new * g + h, g

    assert proof("h[], g[], d[]; x[t]", step) == [("sequential", "h"), ("affine", "g"), ("delay", "d")]


# --- parallel -----------------------------------------------------------------------------------------------------


def test_require_raises_with_the_reason() -> None:
    with pytest.raises(
        sw.NotAssociativeError,
        match=r"^state 'h' not proved associative: math\.tanh is not affine in state 'h' \(test_proof\.py:\d+: ",
    ):
        scan(traced("h[]; x[t]", lambda h, x: sw.tanh(h + x)), "require")
    assert found(scan(traced("h[]; x[t]", lambda h, x: h + x), "require")) == [("affine", "h")]


def test_require_raises_from_a_call() -> None:
    @sw.recurrence("h[b]; x[b t]", parallel="require")
    def squared(h: Any, x: Any) -> Any:
        return h * h + x

    with pytest.raises(sw.NotAssociativeError, match=r"math\.fma multiplies two values .*return h \* h \+ x"):
        squared(torch.ones(2, 3))
    assert torch.equal(squared(torch.ones(1, 3), parallel="auto"), torch.tensor([[1.0, 2.0, 5.0]]))


def test_never_proves_nothing() -> None:
    generic = scan(traced("h[], d[]; x[t]", lambda h, d, x: (h + x, x)), "never")
    assert found(generic) == [("sequential", "h"), ("sequential", "d")]
    assert {c.reason.data for c in generic.component_ops if c.reason} == {'parallel="never" was asked for'}


def test_the_stages_of_a_compiled_recurrence_say_what_was_proved() -> None:
    @sw.recurrence("g[b], h[b]; x[b t]")
    def step(g: Any, h: Any, x: Any) -> Any:
        return sw.tanh(g + x), 0.5 * h + g

    text = step.artifact(torch.zeros(2, 4)).stages["scan"]
    assert 'scan.component "sequential" [0] because "math.tanh is not affine in state \'g\' (test_proof.py:' in text
    assert 'scan.component "affine" [1] lift' in text
