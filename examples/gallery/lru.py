"""The linear recurrent unit: complex diagonal states, as S5 has them.

Source: Orvieto et al., 2023, https://arxiv.org/abs/2303.06349, section 3.

S5 (Smith et al., 2022, https://arxiv.org/abs/2208.04933) is the same with another parametrization of the eigenvalues.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("x[b n]:complex64; u[b m t], nu[n], theta[n], B[n m], C[p n] -> y[b p t]")
def lru(x: Any, u: Any, nu: Any, theta: Any, B: Any, C: Any) -> Any:
    size, angle = sw.exp(-sw.exp(nu)), sw.exp(theta)
    eigenvalue = size * sw.complex(sw.cos(angle), sw.sin(angle))
    x = eigenvalue * x + sw.sqrt(1 - size * size) * sw.sum(B * u, "m")
    return x, sw.real(sw.sum(C * x, "n"))


def example(rand: Any) -> Any:
    b, m, n, p, t = 3, 3, 6, 4, 50
    inputs = {"u": rand(b, m, t), "nu": rand(n, low=-3, high=0), "theta": rand(n, low=-2, high=1)}
    return lru, inputs | {"B": torch.complex(rand(n, m), rand(n, m)), "C": torch.complex(rand(p, n), rand(p, n))}


def reference(u: Any, nu: Any, theta: Any, B: Any, C: Any) -> Any:
    """SciPy: each mode is a complex filter of first order."""
    from scipy.signal import lfilter

    eigenvalues = np.exp(-np.exp(nu.numpy()) + 1j * np.exp(theta.numpy()))
    drive = torch.einsum("nm,bmt->bnt", B, u.to(B.dtype)).numpy()
    states = np.stack(
        [lfilter([np.sqrt(1 - abs(a) ** 2)], [1, -a], drive[:, i]) for i, a in enumerate(eigenvalues)], axis=1
    )
    return torch.einsum("pn,bnt->bpt", C, torch.from_numpy(states)).real
