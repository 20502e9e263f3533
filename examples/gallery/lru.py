"""The linear recurrent unit: complex diagonal states, as S5 has them.

Source: Orvieto et al., 2023, https://arxiv.org/abs/2303.06349, section 3.

S5 (Smith et al., 2022, https://arxiv.org/abs/2208.04933) is the same with another parametrization of the eigenvalues.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("re[b n], im[b n]; u[b m t], nu[n], theta[n], B_re[n m], B_im[n m], C_re[p n], C_im[p n] -> y[b p t]")
def lru(re: Any, im: Any, u: Any, nu: Any, theta: Any, B_re: Any, B_im: Any, C_re: Any, C_im: Any) -> Any:
    size, angle = sw.exp(-sw.exp(nu)), sw.exp(theta)
    a, b = size * sw.cos(angle), size * sw.sin(angle)
    gain = sw.sqrt(1 - size * size)
    re, im = (
        a * re - b * im + gain * sw.sum(B_re * u, "m"),
        b * re + a * im + gain * sw.sum(B_im * u, "m"),
    )
    return (re, im), sw.sum(C_re * re - C_im * im, "n")


def example(rand: Any) -> Any:
    b, m, n, p, t = 3, 3, 6, 4, 50
    inputs = {"u": rand(b, m, t), "nu": rand(n, low=-3, high=0), "theta": rand(n, low=-2, high=1)}
    inputs |= {"B_re": rand(n, m), "B_im": rand(n, m)}
    return lru, inputs | {"C_re": rand(p, n), "C_im": rand(p, n)}


def reference(u: Any, nu: Any, theta: Any, B_re: Any, B_im: Any, C_re: Any, C_im: Any) -> Any:
    """SciPy: each mode is a complex filter of first order."""
    from scipy.signal import lfilter

    eigenvalues = np.exp(-np.exp(nu.numpy()) + 1j * np.exp(theta.numpy()))
    drive = torch.einsum("nm,bmt->bnt", torch.complex(B_re, B_im), torch.complex(u, torch.zeros_like(u))).numpy()
    states = np.stack(
        [lfilter([np.sqrt(1 - abs(a) ** 2)], [1, -a], drive[:, i]) for i, a in enumerate(eigenvalues)], axis=1
    )
    return torch.einsum("pn,bnt->bpt", torch.complex(C_re, C_im), torch.from_numpy(states)).real
