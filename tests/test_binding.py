"""Binding a call's arguments: names, shapes, strides, dtypes, devices; and what is refused."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import scanweaver as sw
from scanweaver.dialects.recurrence import GenericOp
from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.frontend import arguments
from scanweaver.frontend.arguments import Options
from scanweaver.frontend.binding import Binder, Binding, set_layouts
from scanweaver.frontend.memory import dense_strides
from scanweaver.frontend.parameters import REQUIRED, read_parameters
from scanweaver.frontend.signature import parse_signature
from scanweaver.frontend.trace import trace_step
from scanweaver.interpreters import run_module
from scanweaver.schedule import choose

SELECTIVE = "h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]"


def selective_scan(
    h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, *, softplus: bool = False
) -> Any:
    raise AssertionError("binding does not run the step")


def binder(text: str, step: Callable[..., Any], **options: Any) -> Binder:
    signature = parse_signature(text)
    return Binder(step.__name__, signature, read_parameters(step, signature), Options(**options))


def bind(text: str, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Binding:
    return binder(text, step).bind(args, kwargs)[0]


def refusal(
    text: str, step: Callable[..., Any], *args: Any, error: type[Exception] = SignatureError, **kwargs: Any
) -> str:
    with pytest.raises(error) as caught:
        bind(text, step, *args, **kwargs)
    return str(caught.value)


def tensors(b: int = 2, d: int = 3, n: int = 4, t: int = 5) -> dict[str, torch.Tensor]:
    shapes = {"u": (b, d, t), "dt": (b, d, t), "A": (d, n), "B": (b, n, t), "C": (b, n, t)}
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


# --- what is bound ------------------------------------------------------------------------------------------------


def test_the_selective_scan():
    given = tensors()
    D, h0 = torch.zeros(3), torch.zeros(3, 4)
    bound, operands, values = binder(SELECTIVE, selective_scan).bind(
        tuple(given.values()), {"D": D, "softplus": True, "init": h0, "return_last": True}
    )
    spec = bound.specialization
    assert [x.name for x in spec.operands] == ["h", "u", "dt", "A", "B", "C", "D"]
    assert spec.inits[0] is not None and spec.inits[0].axes == ("d", "n")
    assert spec.constants == (("softplus", bool, True),) and spec.return_last and not spec.reverse
    assert bound.sizes == {"b": 2, "d": 3, "n": 4, "t": 5}
    assert bound.strides[1] == {"b": 15, "d": 5, "t": 1}
    assert [id(x) for x in operands] == [id(x) for x in (h0, *given.values(), D)]
    assert values == [x.data_ptr() for x in operands]
    assert bound.shape(("b", "d", "t")) == (2, 3, 5)


def test_equal_calls_share_a_binding_and_different_ones_do_not():
    bind = binder(SELECTIVE, selective_scan).bind
    one = bind((), tensors())[0]
    assert bind((), tensors())[0] is one
    assert bind(tuple(tensors().values()), {})[0] is one
    assert bind((), {**tensors(), "D": None, "init": None, "reverse": False})[0].specialization == one.specialization
    others = [
        bind((), tensors(t=6))[0],
        bind((), {**tensors(), "softplus": True})[0],
        bind((), {**tensors(), "reverse": True})[0],
        bind((), {**tensors(), "u": torch.zeros(2, 5, 3).mT})[0],
        bind((), {**tensors(), "u": torch.zeros(2, 3, 5).bfloat16()})[0],
        bind((), {**tensors(), "u": torch.zeros(31)[1:].view(2, 3, 5)})[0],
    ]
    assert all(other is not one for other in others)
    assert others[0].specialization == one.specialization
    assert one.layouts[0] == type(one.layouts[0])("t", 4) and others[3].layouts[0].contiguous == "d"


def test_constants_that_are_equal_numbers_of_different_types_differ():
    def step(h: Any, x: Any, *, k: Any = 1) -> Any: ...

    bind = binder("h[b]; x[b t]", step).bind
    specs = {bind((torch.zeros(2, 3),), {"k": k})[0].specialization for k in (1, 1.0, True)}
    assert len(specs) == 3


def test_specializations_are_hashable_and_take_sizes():
    bound = bind(SELECTIVE, selective_scan, **tensors())
    assert bound.specialized(("n",), ()).sizes == (("n", 4),)
    assert hash(bound.specialized(("n",), ())) != hash(bound.specialization)


def test_scalar_inputs():
    def step(h: Any, x: Any, g: Any = 0.99, k: Any = None) -> Any: ...

    text = "h[b]; x[b t], g[], k[] -> y[b t]"
    bind = binder(text, step).bind
    x = torch.zeros(2, 3)
    one, _, values = bind((x,), {})
    assert values == [x.data_ptr(), 0.99]
    assert one.specialization.inputs[1].scalar and one.specialization.inputs[1].dtype == "f32"
    assert bind((x, 0.5), {})[0] is one and bind((x, 2), {})[0] is one and bind((x, np.float32(0.5)), {})[0] is one
    assert bind((x,), {"k": 3})[0].specialization.inputs[2].dtype == "i64"
    assert bind((x,), {"k": True})[0].specialization.inputs[2].dtype == "i1"
    assert bind((x.double(), 0.5), {})[0].specialization.inputs[1].dtype == "f64"
    tensor = bind((x, torch.tensor(0.5)), {})[0]
    assert not tensor.specialization.inputs[1].scalar and tensor.strides[1] == {}


def test_leading_axes_broadcast_from_the_right():
    def step(h: Any, x: Any, w: Any, v: Any) -> Any: ...

    text = "h[... d]; x[... d t], w[... t], v[d] -> y[... t d]"
    bound = bind(text, step, torch.zeros(6, 1, 4, 5), torch.zeros(3, 5), torch.zeros(4))
    assert bound.specialization.leading == ("_0", "_1")
    assert bound.sizes == {"_0": 6, "_1": 3, "d": 4, "t": 5}
    assert [x.axes for x in bound.specialization.inputs] == [("_0", "_1", "d", "t"), ("_1", "t"), ("d",)]
    assert bound.strides[0] == {"_0": 20, "_1": 0, "d": 5, "t": 1}
    assert bind(text, step, torch.zeros(4, 5), torch.zeros(5), torch.zeros(4)).specialization.leading == ()
    message = refusal(text, step, torch.zeros(6, 2, 4, 5), torch.zeros(3, 5), torch.zeros(4))
    assert "leading axis" in message and "`x[... d t]`, of shape (6, 2, 4, 5)" in message and "`w[... t]`" in message


def test_init_broadcasts_and_sizes_axes_that_only_states_carry():
    def step(h: Any, g: Any, x: Any) -> Any: ...

    text = "h[b n], g[b]; x[b t] -> y[b t]"
    x = torch.zeros(2, 5)
    bound = bind(text, step, x, init=(torch.zeros(1, 4), None))
    assert bound.sizes == {"b": 2, "t": 5, "n": 4} and bound.strides[0] == {"b": 0, "n": 1}
    assert bound.specialization.inits[1] is None
    assert bind(text, step, x, init=[torch.zeros(4), 1.5]).specialization.inits[1].scalar  # type: ignore[union-attr]
    message = refusal(text, step, x)
    assert "axis `n` of state `h[b n]` has no size" in message and "init=" in message


def test_starts_are_converted_to_their_states_dtype():
    def step(h: Any, n: Any, x: Any) -> Any: ...

    h0 = torch.tensor([[1.5], [2.5]], dtype=torch.bfloat16).expand(2, 3)
    bound, operands, values = binder("h[b d], n[b]:int32; x[b d t]", step).bind(
        (torch.zeros(2, 3, 4),), {"init": (h0, 7.0)}
    )
    assert operands[0].dtype == torch.float32 and torch.equal(operands[0], h0.float())
    assert tuple(bound.strides[0].values()) == operands[0].stride()
    assert values[0] == operands[0].data_ptr() and values[1] == 7 and type(values[1]) is int


def test_outputs_are_nested_as_the_first_input_with_time():
    def step(h: Any, A: Any, x: Any) -> Any: ...

    text = "h[b d n]; A[d n], x[b d t] -> y[b d t]"
    bound = bind(text, step, torch.zeros(3, 4), torch.zeros(2, 5, 3).mT)
    assert bound.result_strides(("b", "d", "t")) == (15, 1, 3)
    assert bound.result_strides(("t", "d", "b")) == (3, 1, 15)
    assert bound.result_strides(("b", "d", "n")) == (12, 4, 1)  # the last state
    ((_, layout),) = bound.result_parts(("b", "d", "t"), torch.float32)
    assert layout.contiguous == "d"
    parts = bound.result_parts(("b", "d", "t"), torch.complex64)
    assert [(strides, layout.contiguous) for strides, layout in parts] == [({"b": 30, "d": 2, "t": 6}, "")] * 2
    assert dense_strides(("b", "t"), {"b": 4, "t": 5}, {"b": 0, "t": 1}) == (5, 1)
    assert dense_strides(("b", "d", "n", "t"), {"b": 2, "d": 3, "n": 7, "t": 5}, {"b": 15, "t": 3, "d": 1}) == (
        105,
        1,
        3,
        21,
    )
    assert dense_strides(("b", "t"), {"b": 0, "t": 5}, {"b": 5, "t": 1}) == (5, 1)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)])
def test_dense_strides_are_those_of_empty_like(order: tuple[int, ...]):
    shape = (3, 4, 5)
    x = torch.empty([shape[i] for i in order]).permute([order.index(i) for i in range(3)])
    sizes = dict(zip("bdt", shape, strict=True))
    assert dense_strides(tuple("bdt"), sizes, dict(zip("bdt", x.stride(), strict=True))) == torch.empty_like(x).stride()


@pytest.mark.parametrize(
    ("x", "contiguous", "align"),
    [
        (torch.zeros(2, 3, 8), "t", 16),
        (torch.zeros(2, 3, 6), "t", 4),
        (torch.zeros(2, 3, 5), "t", 4),
        (torch.zeros(2, 8, 4).mT, "d", 16),
        (torch.zeros(2, 4, 16)[..., ::2], "", 4),
        (torch.zeros(2, 4, 16)[..., 1:9], "t", 4),
        (torch.zeros(2, 4, 16)[..., 4:8], "t", 16),
        (torch.zeros(2, 3, 1), "d", 4),
        (torch.zeros(1, 1, 1), "t", 16),
        (torch.zeros(1, 1, 8).expand(4, 3, 8), "t", 16),
        (torch.zeros(8, dtype=torch.float64).expand(4, 3, 8), "t", 16),
        (torch.zeros(4, 3, 8, dtype=torch.bfloat16), "t", 16),
        (torch.zeros(4, 3, 4, dtype=torch.bfloat16), "t", 2),
        (torch.zeros(1, 1, 1).expand(4, 3, 8), "", 4),
    ],
)
def test_layouts(x: torch.Tensor, contiguous: str, align: int):
    def step(h: Any, x: Any) -> Any: ...

    layout = bind("h[b d]; x[b d t] -> y[b d t]", step, x).layouts[0]
    assert (layout.contiguous, layout.align) == (contiguous, align)


def test_layouts_of_operands_and_results_go_into_the_module():
    def step(h: Any, n: Any, x: Any, g: Any) -> Any:
        return (h + x * g, n + 1), h

    text = "h[b d], n[b]:int32; x[b d t], g[] -> y[b t d]:bfloat16"
    signature = parse_signature(text)
    bound = bind(text, step, torch.zeros(2, 5, 8).mT, 0.5, init=(torch.zeros(2, 8), None), return_last=True)
    module = trace_step(step, signature, bound.specialization)
    set_layouts(module, bound)
    module.verify()
    (generic,) = (op for op in module.walk() if isinstance(op, GenericOp))
    assert generic.layouts is not None
    found = [(layout.axis, layout.bytes) for layout in generic.layouts]
    #         h          n        x          g        y          last h     last n
    assert found == [("d", 16), ("", 1), ("d", 16), ("", 1), ("d", 16), ("d", 16), ("b", 16)]


def test_a_bound_call_runs_through_the_interpreter():
    def step(h: Any, x: Any, g: Any) -> Any:
        return g * h + x

    text = "h[b]; x[b t], g[]"
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(3))
    bound, operands, _ = binder(text, step).bind((x, 0.5), {"init": 2, "reverse": True, "return_last": True})
    module = trace_step(step, parse_signature(text), bound.specialization)
    module.verify()
    out, last = run_module(module, "step", *operands)
    h, wanted = torch.full((2,), 2.0), torch.empty_like(x)
    for k in reversed(range(6)):
        wanted[:, k] = h = 0.5 * h + x[:, k]
    np.testing.assert_allclose(out, wanted.numpy(), rtol=1e-6)
    np.testing.assert_allclose(last, h.numpy(), rtol=1e-6)


def test_integers_and_bools():
    def step(h: Any, x: Any, m: Any, k: Any) -> Any: ...

    text = "h[b]; x[b t], m[b t], k[b] -> y[b t]"
    bound = bind(text, step, torch.zeros(2, 3).half(), torch.zeros(2, 3).bool(), torch.zeros(2, dtype=torch.uint8))
    assert [x.dtype for x in bound.specialization.inputs] == ["f16", "i1", "u8"]


# --- what is refused ------------------------------------------------------------------------------------------------


def test_two_sizes_for_one_axis():
    message = refusal(SELECTIVE, selective_scan, **{**tensors(), "A": torch.zeros(7, 4)})
    assert "axis `d` has size 3 in `u[b d t]`, of shape (2, 3, 5)" in message
    assert "size 7 in `A[d n]`, of shape (7, 4)" in message
    message = refusal(SELECTIVE, selective_scan, **{**tensors(), "B": torch.zeros(1, 4, 5)})
    assert "a size of 1 does not broadcast" in message and "leave `b` out" in message


def test_init_of_a_wrong_shape():
    message = refusal(SELECTIVE, selective_scan, **tensors(), init=torch.zeros(2, 3, 9))
    assert "init of state `h[b d n]` of selective_scan" in message
    assert "[b=2 d=3 n=4]" in message and "got (2, 3, 9), whose `n` is 9" in message
    message = refusal(SELECTIVE, selective_scan, **tensors(), init=torch.zeros(1, 2, 3, 4))
    assert "got 4 dimensions, (1, 2, 3, 4)" in message


def test_an_input_on_another_device():
    message = refusal(SELECTIVE, selective_scan, **{**tensors(), "A": torch.zeros(3, 4, device="meta")})
    assert "argument `A[d n]` of selective_scan is on meta, and argument `u[b d t]` is on cpu" in message
    message = refusal(SELECTIVE, selective_scan, **tensors(), init=torch.zeros(3, 4, device="meta"))
    assert "init of state `h[b d n]` of selective_scan is on meta" in message


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"u": torch.zeros(3, 5)},
            "argument `u[b d t]` of selective_scan: expected 3 dimensions, got 2, of",
        ),
        ({"D": torch.zeros(3, 1)}, "expected 1 dimension, got 2"),
        ({"D": 1.0}, "expected a tensor of 1 dimensions, got the number 1.0: only a scalar input, `D[]`"),
        ({"u": np.zeros((2, 3, 5))}, "got numpy.ndarray: wrap it by torch.from_numpy"),
        ({"u": [1.0]}, "argument `u[b d t]` of selective_scan: expected a tensor or a number, got list"),
        ({"u": None}, "expected a value for input `u[b d t]`, got None"),
        ({"A": REQUIRED}, "expected a value for input `A[d n]`, got nothing"),
        ({"u": torch.zeros(2, 3, 5).to(torch.float8_e4m3fn)}, "got float8_e4m3fn"),
        ({"soft_plus": True}, "did you mean `softplus`?"),
        ({"initial": None}, "selective_scan has no argument `initial`: did you mean `init`?"),
        ({"xyzzy": None}, "it takes u, dt, A"),
        ({"softplus": torch.tensor(True)}, "constant `softplus` of selective_scan is a tensor: make it an input"),
        ({"softplus": [1]}, "expected something hashable, got list"),
        ({"reverse": 1}, "reverse= of selective_scan: expected True or False, got 1"),
        ({"parallel": "yes"}, "parallel='yes': expected one of 'auto', 'require', 'never', 'newton'"),
        ({"init": "zeros"}, "init of state `h[b d n]` of selective_scan: expected a tensor or a number, got str"),
        ({"init": (0.0, 1.0)}, "expected a tensor or a number (h[b d n]), got a tuple of 2"),
        ({"init": [0.0, 1.0]}, "expected a tensor or a number (h[b d n]), got a list of 2"),
        ({"strategy": "foo"}, "strategy='foo': expected one of 'auto', 'lanes', 'serial', 'blelloch'"),
        ({"u": torch.zeros(2, 3, 5).to_sparse()}, "argument `u[b d t]` of selective_scan: expected a dense tensor"),
        ({"A": torch.zeros(3, 4).to_sparse()}, "got layout sparse_coo: give x.to_dense()"),
        ({"init": torch.zeros(3, 4).to_sparse()}, "init of state `h[b d n]` of selective_scan: expected a dense"),
        ({"init": torch.zeros(3, 4, dtype=torch.complex64)}, "expected float32, got complex64"),
        ({"init": torch.zeros(3, 4, dtype=torch.bool)}, "expected float32, got bool"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], wanted: str):
    assert wanted in refusal(SELECTIVE, selective_scan, **{**tensors(), **changes})


@pytest.mark.parametrize("option", ["parallel", "strategy"])
def test_a_wrong_option_is_refused_at_decoration(option: str):
    with pytest.raises(SignatureError, match=f"{option}='foo': expected one of 'auto'"):
        sw.recurrence("h[b]; x[b t]", **{option: "foo"})


def test_strategies_are_those_of_the_schedule():
    assert arguments.STRATEGIES == choose.STRATEGIES


def test_a_decorator_without_its_signature():
    with pytest.raises(SignatureError, match="expected the signature as text, got function: write it, as in"):
        sw.recurrence(lambda h, x: h + x)  # type: ignore[arg-type]


def test_too_many_and_twice():
    assert "selective_scan takes 7 inputs (u, dt, A, B, C, D, z), got 8" in refusal(
        SELECTIVE, selective_scan, *[torch.zeros(1)] * 8
    )
    given = tensors()
    assert "got input `u` twice" in refusal(SELECTIVE, selective_scan, *given.values(), u=given["u"])


def test_starts_of_several_states():
    def step(h: Any, n: Any, x: Any) -> Any: ...

    text, x = "h[b], n[b]:int32; x[b t]", torch.zeros(2, 3)
    assert "a tuple of 2, one for each state (h[b], n[b]), got 0.0" in refusal(text, step, x, init=0.0)
    assert "got one tensor" in refusal(text, step, x, init=torch.zeros(2))
    assert "init of state `n[b]` of step: expected an integer, got 0.5" in refusal(text, step, x, init=(None, 0.5))
    assert "expected int32, got float32" in refusal(text, step, x, init=(None, torch.zeros(2)))


@pytest.mark.parametrize(
    "option", [{"cu_seqlens": torch.zeros(2)}, {"group": 1}, {"autotune": True}, {"parallel": "newton"}]
)
def test_what_comes_later(option: dict[str, Any]):
    message = refusal(SELECTIVE, selective_scan, **tensors(), **option, error=UnsupportedError)
    assert "not built yet" in message and next(iter(option)) in message


def test_gradients_come_later():
    u = torch.zeros(2, 3, 5, requires_grad=True)
    message = refusal(SELECTIVE, selective_scan, **{**tensors(), "u": u}, error=UnsupportedError)
    assert "argument `u[b d t]` of selective_scan requires grad" in message and "torch.no_grad()" in message
    with torch.no_grad():
        bind(SELECTIVE, selective_scan, **{**tensors(), "u": u})
    h0 = torch.zeros(3, 4, requires_grad=True)
    assert "init of state" in refusal(SELECTIVE, selective_scan, **tensors(), init=h0, error=UnsupportedError)


def test_renamed_axes_have_one_size():
    def step(h: Any, W: Any, x: Any) -> Any: ...

    bound = bind("h[b d]; W[d e], x[b d t]", step, torch.zeros(3, 4), torch.zeros(2, 3, 5))
    with pytest.raises(SignatureError, match="expected axes of one size, got 3 for `d` and 4 for `e`"):
        bound.specialized(("d", "e"), (("d", "e"),))


def test_an_axis_of_an_optional_input_needs_it():
    def step(h: Any, x: Any, z: Any = None) -> Any: ...

    message = refusal("h[b]; x[b t], z[b q t] -> y[b q t]", step, torch.zeros(2, 3))
    assert "axis `q` of output `y[b q t]` has no size" in message


# --- decoration ---------------------------------------------------------------------------------------------------


def parameters(text: str, step: Callable[..., Any]) -> Any:
    return read_parameters(step, parse_signature(text))


def test_parameters_by_name_and_rest():
    assert parameters("h[b]; x[b t], g[]", lambda *args: None).defaults == (REQUIRED, REQUIRED)
    assert parameters("h[b]; x[b t], g[]", lambda h, *args: None).defaults == (REQUIRED, REQUIRED)
    found = parameters("h[b]; x[b t], g[]", lambda h, x, g=0.5, *, k, s=2: None)
    assert found.defaults == (REQUIRED, 0.5) and found.constants == {"k": REQUIRED, "s": 2}


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (lambda h, x, y: None, "parameter `y` of <lambda>(h, x, y) is not in the signature"),
        (lambda h: None, "`x` is in the signature and not among the parameters of <lambda>(h)"),
        (lambda x, h: None, "parameter `x` of <lambda>(x, h) stands where the signature has `h`"),
        (lambda h, *, x: None, "`x` is in the signature and keyword-only"),
        (lambda h, x, **more: None, "`**more`"),
        (lambda h, x, *, init=0: None, "constant `init`"),
        (lambda h=0.0, x=None: None, "state `h` has a default"),
        (lambda h, x=0.0: None, "only a scalar input, `x[]`, takes one"),
        (lambda h, x="a": None, "expected None or a number, got 'a'"),
    ],
)
def test_parameters_that_do_not_fit(step: Callable[..., Any], wanted: str):
    with pytest.raises(SignatureError) as caught:
        parameters("h[b]; x[b t]", step)
    assert wanted in str(caught.value)


def test_a_missing_parameter_is_pointed_at():
    with pytest.raises(SignatureError) as caught:
        parameters("h[b]; x[b t], w[b t]", lambda h, x: None)
    assert str(caught.value).splitlines()[-1].strip() == "^" * len("w[b t]")


def test_a_constant_without_a_default_is_needed():
    def step(h: Any, x: Any, *, k: Any) -> Any: ...

    assert "expected a value for the constant `k`" in refusal("h[b]; x[b t]", step, torch.zeros(2, 3))


def test_an_input_cannot_be_called_as_an_option():
    with pytest.raises(SignatureError, match="input `init` is called as an option"):
        parameters("h[b]; init[b t]", lambda h, init: None)


def test_tensors_without_memory_of_their_own_are_refused() -> None:
    step = sw.recurrence("h[b]; a[b t], x[b t]")(lambda h, a, x: a * h + x)
    x = torch.rand(3, 5)
    freed = x.clone()
    freed.untyped_storage().resize_(0)
    with pytest.raises(sw.SignatureError, match=r"argument `a\[b t\]`.*with memory of its own"):
        step(freed, x)
    with pytest.raises(sw.UnsupportedError, match="while PyTorch traces"):
        make_fx(lambda q: step(q, q))(x)


def damped(h: Any, a: Any, x: Any) -> Any:
    return a * h + x


class Wrapper(torch.Tensor):
    """A tensor whose elements another one holds, as torch.distributed makes them."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())  # type: ignore[attr-defined]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("binding asks for no operation")


def masked(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.masked.masked_tensor(x, x > 0.5)  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")  # prototypes of PyTorch
@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda x: torch.nested.nested_tensor([x[0], x[1]]), "expected a dense tensor, got a nested one"),
        (lambda x: torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged), "got a nested one"),
        (lambda x: x.to_sparse_csr(), "got layout sparse_csr"),
        (lambda x: x.to_mkldnn(), "got layout _mkldnn"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "got qint8"),
        (lambda x: FakeTensorMode().from_tensor(x), "with memory of its own, got a FakeTensor without"),
        (lambda x: Wrapper(x), "got a Wrapper without"),
        (masked, "got a MaskedTensor without"),
        (lambda x: torch.nn.UninitializedParameter(requires_grad=False), "got a UninitializedParameter without"),
        (lambda x: torch._efficientzerotensor(x.shape), "with memory of its own"),
    ],
)
def test_what_is_no_tensor_in_memory_is_refused_wherever_it_stands(made: Callable[..., Any], wanted: str) -> None:
    x = torch.rand(2, 3, 4)
    text = "h[b d t2]; a[b d t2], x[b d t2 t]"
    odd = made(x)
    assert wanted in (message := refusal(text, damped, odd, x[..., None])) and "argument `a[b d t2]`" in message
    if "qint8" not in wanted:
        assert wanted in (message := refusal(text, damped, x, x[..., None], init=odd))
        assert "init of state `h[b d t2]`" in message
        step = sw.recurrence(text)(damped).step
        with pytest.raises(SignatureError, match="state `h"):
            step(x, x, state=odd)
        two = sw.recurrence("g[b d t2], h[b d t2]; x[b d t2 t]")(lambda g, h, x: (g + x, h + x)).step
        with pytest.raises(SignatureError, match="state `h"):
            two(x, state=(x.clone(), odd))


def test_transforms_of_torch_func_are_refused() -> None:
    step = sw.recurrence("h[b]; a[b t], x[b t]")(damped)
    x, batch = torch.rand(3, 5), torch.rand(4, 3, 5)
    with pytest.raises(UnsupportedError, match=r"argument `a\[b t\]` of damped is a tensor of torch.func.vmap"):
        torch.func.vmap(step)(batch, batch)
    with pytest.raises(UnsupportedError, match=r"argument `x\[b t\]`.* torch.func.vmap, which is not supported yet"):
        torch.func.vmap(lambda q: step(x, q))(batch)
    with pytest.raises(UnsupportedError, match=r"init of state .* torch\.func\.vmap"):
        torch.func.vmap(lambda q: step(x, x, init=q))(batch[..., 0])
    with pytest.raises(UnsupportedError, match="has a tangent, and forward-mode gradients are not built yet"):
        torch.func.jvp(step, (x, x), (x, x))
    with pytest.raises(UnsupportedError, match="gradients are not built yet"):
        torch.func.grad(lambda q: step(q, x).sum())(x)
    with pytest.raises(UnsupportedError, match="not supported yet"):
        torch.func.functionalize(step)(x, x)
    for transform in (torch.func.grad, torch.func.jacfwd):  # where even new tensors are of the transform
        with pytest.raises(UnsupportedError, match=r"inside a transform of torch\.func"):
            transform(lambda q: (step(x, x) + q).sum())(x)


def test_dual_tensors_do_not_lose_their_tangents() -> None:
    step = sw.recurrence("h[b]; a[b t], x[b t]")(damped)
    x = torch.rand(3, 5)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        with torch.no_grad(), pytest.raises(UnsupportedError, match=r"argument `a\[b t\]` of damped has a tangent"):
            step(dual, x)
        with pytest.raises(UnsupportedError, match="has a tangent"):
            step.step(dual[:, 0], x[:, 0], state=torch.zeros(3))
        assert torch.equal(step(forward_ad.unpack_dual(dual).primal, x), step(x, x))


@pytest.mark.filterwarnings("ignore")
def test_torch_jit_trace_is_refused() -> None:
    step = sw.recurrence("h[b]; a[b t], x[b t]")(damped)
    x = torch.rand(3, 5)
    with pytest.raises(UnsupportedError, match=r"damped is called inside torch\.jit\.trace"):
        torch.jit.trace(step, (x, x))


@pytest.mark.parametrize("shape", [(2**62, 1), (1, 2**61), (2**30, 2**31), (0, 2**62)])
def test_results_of_more_than_64_bits_of_bytes(shape: tuple[int, int]) -> None:
    x = torch.zeros(1).expand(shape)
    with pytest.raises(SignatureError, match=r"a result of shape \(.*\) has more bytes than 64 bits count"):
        sw.recurrence("h[b]; a[b t], x[b t]")(damped)(x, x)


def test_numbers_beyond_floats_and_of_a_kind_that_was_bound_before() -> None:
    x = torch.ones(2, 3)
    step = sw.recurrence("h[b]; x[b t], g[]")(lambda h, x, g=0.5: g * h + x)
    for call in (lambda: step(x, 10**400), lambda: step(x, init=10**400), lambda: step(x, init=10**400)):
        with pytest.raises(SignatureError, match="got an integer of 1329 bits"):
            call()
    counted = sw.recurrence("n[b]:int64; x[b t]")(lambda n, x: n + x)
    ones = torch.ones(2, 3, dtype=torch.int64)
    assert counted(ones, init=2.0)[0].tolist() == [3, 4, 5]
    with pytest.raises(SignatureError, match=r"expected an integer, got 2\.5"):  # the start's kind is known by now
        counted(ones, init=2.5)
    with pytest.raises(SignatureError, match="from -9223372036854775808 to 9223372036854775807, got an integer of 67"):
        counted(ones, init=10**20)


def test_integers_that_a_state_starts_at_exactly() -> None:
    ones = torch.ones(1, 1, dtype=torch.int64)
    large = sw.recurrence("n[b]:int64=9007199254740993; x[b t]")(lambda n, x: n + x)
    assert large(ones).item() == 2**53 + 2
    assert large(ones, init=2**53 + 3).item() == 2**53 + 4
    short = sw.recurrence("n[b]:int8=-128; x[b t]")(lambda n, x: n)
    assert short(ones).item() == -128
    assert short(ones, init=127).item() == 127
    with pytest.raises(SignatureError, match="expected an integer from -128 to 127, got 128"):
        short(ones, init=128)  # a number of the same type was bound before


def test_a_misspelt_input_is_named_before_the_one_it_leaves_out() -> None:
    x = torch.ones(2, 3)
    step = sw.recurrence("h[b]; decay[b t], x[b t]")(lambda h, decay, x: decay * h + x)
    with pytest.raises(SignatureError, match="no argument `dekay`: did you mean `decay`"):
        step(x=x, dekay=x)


@pytest.mark.parametrize("sizes", [(1, 5), (5, 1), (5, 5), (1, 1), (1, 0)])
def test_leading_axes_of_inputs_and_init_broadcast_together(sizes: tuple[int, int]) -> None:
    step = sw.recurrence("h[... d]; a[... d t], x[... d t]")(damped)
    a, x, start = torch.rand(sizes[0], 3, 4), torch.rand(1, 3, 4), torch.rand(sizes[1], 3)
    got, last = step(a, x, init=start, return_last=True)
    h = start
    rows = [h := a[..., t] * h + x[..., t] for t in range(4)]
    torch.testing.assert_close(got, torch.stack(rows, -1))
    torch.testing.assert_close(last, h)


@pytest.mark.parametrize(
    "step",
    [
        print,
        torch.add,
        3,
        None,
        int,
        torch.nn.Linear(1, 1),
        functools.partial(damped, 0),
        sw.recurrence("h[b]; a[b t], x[b t]")(damped),
    ],
)
def test_only_functions_of_python_are_steps(step: Any) -> None:
    with pytest.raises(SignatureError, match=r"sw\.recurrence decorates a step, a function written in Python, got"):
        sw.recurrence("h[b]; a[b t], x[b t]")(step)


@pytest.mark.parametrize("option", ["time", "batch"])
def test_axes_are_named_by_text(option: str) -> None:
    with pytest.raises(SignatureError, match=f"{option}=3: expected an axis name"):
        sw.recurrence("h[b]; x[b t]", **{option: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["parallel", "strategy"])
def test_options_that_compare_as_arrays(option: str) -> None:
    assert f"{option}=" in refusal(SELECTIVE, selective_scan, **tensors(), **{option: np.ones(2)})


copied = sw.recurrence("h[b]; a[b t], x[b t]")(damped)
copied.__qualname__ = "copied"


def test_a_recurrence_is_copied_and_pickled_as_functions_are() -> None:
    x = torch.rand(3, 5)
    copied(x, x)  # holds a kernel by now
    assert copy.deepcopy({"scan": copied})["scan"] is copied
    assert pickle.loads(pickle.dumps(copied)) is copied
