"""Loops over time in PyTorch, in any precision: what kernels are held against, and how closely.

Every loop takes its tensors with time last, converts them to `dtype`, and returns a tuple: the outputs, then the last
states. `assert_accurate(got, loop, *args)` runs a loop in float64 and in float32 and holds `got` to the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

FLOOR = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 4e-3, torch.float16: 1e-3}
"""The error in norm that is always granted: of a half, one rounding."""


# --- how closely -------------------------------------------------------------------------------------------------


def error(got: Tensor, exact: Tensor) -> float:
    """|got - exact| / |exact| in norm; 0 only for equal tensors, NaN or inf if a number is missing or too many."""
    difference = (got.double() - exact.double()).norm().item()
    return difference if difference == 0 else difference / max(exact.double().norm().item(), 1e-300)


def bound(dtype: torch.dtype, error_of_float32: float) -> float:
    """What the contract grants a result of `dtype`, given the error of the same loop in float32 PyTorch."""
    conditioned = 2 * error_of_float32 * (2.0**-29 if dtype == torch.float64 else 1.0)
    return max(FLOOR[dtype], conditioned)


def assert_accurate(
    got: Tensor | tuple[Any, ...], loop: Callable[..., Sequence[Tensor]], *args: Any, **kw: Any
) -> None:
    """Holds the results of a call (nested as it returned them) to the contract, against `loop(*args, **kw)`.

    `got` may leave out the last states.
    """
    (args, kw), results = _where_loops_are_quick((args, kw)), list(flat(got))
    exact = loop(*args, **kw, dtype=torch.float64)
    single = loop(*args, **kw, dtype=torch.float32)
    assert results, "nothing was returned"
    for i, (result, want, rounded) in enumerate(zip(results, exact, single, strict=False)):
        assert result.shape == want.shape, f"result {i}: {tuple(result.shape)}, expected {tuple(want.shape)}"
        result = result.to(want.device)
        limit = bound(result.dtype, error(rounded, want))
        found = error(result, want)
        assert found <= limit, f"result {i} ({result.dtype}): error {found:.3g} in norm, granted {limit:.3g}"


def _where_loops_are_quick(args: Any) -> Any:
    """On the host if every step is small: an operation starts there in a microsecond."""
    small = all(x.shape.numel() <= min(1 << 20, 1024 * max((1, *x.shape))) for x in _tensors_in(args))

    def moved(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.cpu() if small else value
        if isinstance(value, dict):
            return {name: moved(item) for name, item in value.items()}
        return type(value)(map(moved, value)) if isinstance(value, tuple | list) else value

    return moved(args)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | tuple | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(item)


def flat(results: Any) -> Iterator[Tensor]:
    """The tensors of nested tuples in order."""
    if isinstance(results, Tensor):
        yield results
    else:
        for result in results:
            yield from flat(result)


# --- loops -------------------------------------------------------------------------------------------------------

Step = Callable[..., tuple[Sequence[Tensor], Sequence[Tensor]]]


def loop(step: Step, states: Sequence[Tensor], inputs: Sequence[Tensor], reverse: bool = False) -> tuple[Tensor, ...]:
    """`states, outputs = step(states, *inputs at one step)` for each step; the outputs, time last, then the states."""
    steps = inputs[0].shape[-1]
    rows: list[Any] = [None] * steps
    for t in reversed(range(steps)) if reverse else range(steps):
        states, rows[t] = step(states, *(x[..., t] for x in inputs))
    if not steps:
        _, outputs = step(states, *(x.new_zeros(x.shape[:-1]) for x in inputs))
        return (*(output.new_zeros((*output.shape, 0)) for output in outputs), *states)
    return (*(torch.stack(outputs, -1) for outputs in zip(*rows, strict=True)), *states)


def walk(a: Tensor, b: Tensor, h: Tensor, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """h = a h + b with time *first*, in place and unbound: long loops must not rule the tests' time."""
    trajectory = torch.empty_like(b)
    steps = list(zip(a.unbind(0), b.unbind(0), trajectory.unbind(0), strict=True))
    for a_t, b_t, out in reversed(steps) if reverse else steps:
        h = torch.mul(a_t, h, out=out).add_(b_t)
    return trajectory, h.clone()


def affine(
    a: Tensor, b: Tensor, init: Any = 0.0, *, reverse: bool = False, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """h = a h + b."""
    a, b = torch.broadcast_tensors(a.to(dtype), b.to(dtype))
    h = _start(init, a.shape[:-1], a, dtype)
    first, last = a.movedim(-1, 0).contiguous(), b.movedim(-1, 0).contiguous()
    trajectory, h = walk(first, last, h, reverse)
    return trajectory.movedim(0, -1), h


def _start(init: Any, shape: Sequence[int], like: Tensor, dtype: torch.dtype) -> Tensor:
    init = 0.0 if init is None else init
    tensor = init.to(dtype) if isinstance(init, Tensor) else torch.tensor(init, dtype=dtype, device=like.device)
    return tensor.expand(tuple(shape)).clone()


def selective(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    *,
    init: Any = 0.0,
    reverse: bool = False,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Mamba's selective scan; u, delta, z (b d t); A (d n); B, C (d n), (b n t) or (b g n t). Coefficients are worked
    out for many steps at once, then walked one by one."""
    u, delta, A, B, C = (x.to(dtype) for x in (u, delta, A, B, C))
    if delta_bias is not None:
        delta = delta + delta_bias.to(dtype)[:, None]
    if delta_softplus:
        delta = F.softplus(delta, threshold=100)
    (batch, channels, steps), n = u.shape, A.shape[1]
    h = _start(init, (batch, channels, n), u, dtype)
    y = torch.zeros_like(u)
    B, C = (_per_channel(x, channels) for x in (B, C))
    piece = max(1, (1 << 22) // max(1, batch * channels * n))
    pieces = [slice(start, start + piece) for start in range(0, steps, piece)]
    for at in reversed(pieces) if reverse else pieces:
        dt, x, b, c = (value[..., at].movedim(-1, 0) for value in (delta, u, _over(B, steps), _over(C, steps)))
        decay = torch.exp(dt[..., None] * A)
        trajectory, h = walk(decay, dt[..., None] * b * x[..., None], h, reverse)
        y[..., at] = (trajectory * c).sum(-1).movedim(0, -1)
    if D is not None:
        y = y + D.to(dtype)[:, None] * u
    return y if z is None else y * F.silu(z.to(dtype)), h


def _per_channel(x: Tensor, channels: int) -> Tensor:
    """B or C as (b, d, n, t), any of b, d and t being 1."""
    if x.dim() == 2:
        return x[None, :, :, None]
    return x[:, None] if x.dim() == 3 else x.repeat_interleave(channels // x.shape[1], 1)


def _over(x: Tensor, steps: int) -> Tensor:
    return x.expand(*x.shape[:-1], steps)


def garch(r: Tensor, omega: Any, alpha: Any, beta: Any, start: Any, *, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """GARCH(1,1): v[t] = omega + alpha r[t-1]^2 + beta v[t-1], v[0] = start; (v, last v, last r)."""
    r = r.to(dtype)
    omega, alpha, beta, start = (_start(x, r.shape[:-1], r, dtype) for x in (omega, alpha, beta, start))
    rows: list[Tensor] = []
    v = start
    for t in range(r.shape[-1]):
        v = start if t == 0 else omega + alpha * r[..., t - 1] ** 2 + beta * v
        rows.append(v)
    return torch.stack(rows, -1), v, r[..., -1]


def coupled(
    m: Sequence[Sequence[Tensor]],
    x: Sequence[Tensor],
    init: Sequence[Any],
    *,
    reverse: bool = False,
    dtype: torch.dtype,
) -> tuple[Tensor, ...]:
    """k states at once: h_i = sum over j of m_ij h_j + x_i."""
    k = len(x)
    entries = [m[i][j].to(dtype) for i in range(k) for j in range(k)]
    starts = [_start(value, x[0].shape[:-1], x[0], dtype) for value in init]

    def step(h: Sequence[Tensor], *now: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        new: list[Tensor] = []
        for i in range(k):
            row = now[i * k] * h[0]
            for j in range(1, k):
                row = row + now[i * k + j] * h[j]
            new.append(row + now[k * k + i])
        return new, new

    return loop(step, starts, [*entries, *(value.to(dtype) for value in x)], reverse)


def delays(
    x: Tensor, count: int, init: Sequence[Any], *, reverse: bool = False, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """x seen 1, 2, … `count` steps later; (the latest, then the last states)."""
    x = x.to(dtype)
    starts = [_start(value, x.shape[:-1], x, dtype) for value in init]
    return loop(lambda h, now: ((now, *h[:-1]), (h[count - 1],)), starts, [x], reverse)


def resets(
    a: Tensor, b: Tensor, keep: Tensor, init: Any = 0.0, *, reverse: bool = False, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """h = a h + b where `keep`, else b: what came before is forgotten, NaN and inf too."""
    start = _start(init, b.shape[:-1], b, dtype)

    def step(
        h: Sequence[Tensor], a_t: Tensor, b_t: Tensor, keep_t: Tensor
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        new = torch.where(keep_t, a_t * h[0] + b_t, b_t)
        return (new,), (new,)

    y, h = loop(step, [start], [a.to(dtype), b.to(dtype), keep], reverse)
    return y, h


def rnn(W: Tensor, x: Tensor, init: Any = 0.0, *, reverse: bool = False, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """h_d = tanh(sum over e of W_de h_e + x_d); W (d d), x (b d t)."""
    W, x = W.to(dtype), x.to(dtype)

    def step(h: Sequence[Tensor], now: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        new = torch.tanh((W * h[0][:, None, :]).sum(-1) + now)
        return (new,), (new,)

    y, h = loop(step, [_start(init, x.shape[:-1], x, dtype)], [x], reverse)
    return y, h
