"""How the numbers in `coefficients.py` were found: `python -m scanweaver.transforms.math_expansions.fit` prints them.

A development tool (it needs mpmath). Each polynomial is the minimax approximation, by Remez's exchange at 60
digits, of what is left of a function once its exactly known leading terms are taken off; the weight makes the error
relative to the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath  # pyright: ignore[reportMissingTypeStubs]

mp: Any = mpmath  # untyped

Function = Callable[[Any], Any]


def remez(f: Function, weight: Function, lo: Any, hi: Any, degree: int) -> tuple[list[Any], Any]:
    """Coefficients (lowest first) of the polynomial p minimising max |weight·(f - p)| on [lo, hi], and that maximum."""
    nodes = degree + 2
    points: list[Any] = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * i / (nodes - 1)) for i in range(nodes)]
    grid: list[Any] = [lo + (hi - lo) * mp.mpf(2 * i + 1) / 4000 for i in range(2000)]
    coefficients: list[Any] = []
    errors: list[Any] = []
    for _ in range(12):
        system = mp.matrix(nodes, nodes)
        right = mp.matrix(nodes, 1)
        for row, x in enumerate(points):
            for power in range(degree + 1):
                system[row, power] = x**power
            system[row, degree + 1] = (-1) ** row / weight(x)
            right[row] = f(x)
        solution = mp.lu_solve(system, right)
        coefficients = [solution[i] for i in range(degree + 1)]
        errors = [weight(x) * (f(x) - mp.polyval(coefficients[::-1], x)) for x in [lo, *grid, hi]]
        points = _extrema([lo, *grid, hi], errors, nodes)
    return coefficients, max(abs(e) for e in errors)


def _extrema(grid: list[Any], errors: list[Any], count: int) -> list[Any]:
    """The grid point of largest error in each run of one sign, trimmed at the weaker end to `count` points."""
    best: list[int] = []
    for i, error in enumerate(errors):
        if best and errors[best[-1]] * error > 0:
            if abs(error) > abs(errors[best[-1]]):
                best[-1] = i
        else:
            best.append(i)
    while len(best) > count:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    return [grid[i] for i in best]


def main() -> None:
    """Print every table, with the largest relative error of the polynomial in exact arithmetic."""
    mp.mp.dps = 60
    ln2 = mp.log(2)

    def exp_tail(r: Any) -> Any:  # (e^r - 1 - r) / r^2
        return mp.hyp1f1(1, 3, r) / 2

    def exp2_tail(r: Any) -> Any:  # (2^r - 1) / r
        return ln2 * mp.hyp1f1(1, 2, r * ln2)

    def log_tail(f: Any) -> Any:  # (log(1 + f) - f) / f^2
        return mp.hyp2f1(1, 2, 3, -f) / -2

    def atanh_tail(w: Any) -> Any:  # (2 atanh(s) - 2 s) / s^3 at w = s^2
        return 2 * mp.hyp2f1(1, 1.5, 2.5, w) / 3

    def tanh_tail(w: Any) -> Any:  # (tanh(x) - x) / x^3 at w = x^2
        x = mp.sqrt(w)
        return (mp.tanh(x) - x) / x**3 if w > mp.mpf(10) ** -12 else 2 * w / 15 - mp.mpf(1) / 3

    slack = mp.mpf("1.0001")  # the reduced argument may pass the end of its interval by rounding
    half = ln2 / 2 * slack
    root = mp.sqrt(2)
    w_max = ((root - 1) / (root + 1)) ** 2 * slack
    tables: list[tuple[str, Function, Function, Any, Any, int]] = [
        ("EXP f32", exp_tail, lambda r: r**2 / mp.exp(r), -half, half, 4),
        ("EXP f64", exp_tail, lambda r: r**2 / mp.exp(r), -half, half, 9),
        ("EXP2 f32", exp2_tail, lambda r: abs(r) / mp.mpf(2) ** r, -slack / 2, slack / 2, 5),
        ("EXP2 f64", exp2_tail, lambda r: abs(r) / mp.mpf(2) ** r, -slack / 2, slack / 2, 10),
        ("EXPM1 f32", exp_tail, lambda r: abs(r) / mp.exp(r), -half, half, 4),
        ("EXPM1 f64", exp_tail, lambda r: abs(r) / mp.exp(r), -half, half, 9),
        ("LOG f32", log_tail, lambda f: abs(f), 1 / root - 1, (root - 1) * slack, 8),
        ("LOG f64", atanh_tail, lambda w: w, mp.mpf(0), w_max, 6),
        ("TANH f32", tanh_tail, lambda w: w, mp.mpf(0), mp.mpf("0.3125") ** 2 * slack, 3),
        ("TANH f64", tanh_tail, lambda w: w, mp.mpf(0), mp.mpf("0.3125") ** 2 * slack, 7),
    ]
    for name, f, weight, lo, hi, degree in tables:
        coefficients, error = remez(f, lambda x, w=weight: w(x) + mp.mpf(10) ** -30, lo, hi, degree)
        print(f"{name}, degree {degree}: {mp.nstr(error, 3)} = 2^{mp.nstr(mp.log(error, 2), 4)}")
        for c in coefficients:
            print(f"    {mp.nstr(c, 20)},")


if __name__ == "__main__":
    main()
