"""A Mamba block in plain PyTorch, up to the recurrence in its middle.

Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023, section 3.4 and figure 3, with the
initialisation given there: A = -(1 … N), D = 1, softplus(dt bias) log-uniform in [0.001, 0.1].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

DT_MIN, DT_MAX = 0.001, 0.1


class ScanInputs(NamedTuple):
    """The arguments of a selective scan, in the order and shapes of `ops.selective_scan_fn`."""

    u: Tensor  # b d t
    delta: Tensor  # b d t
    A: Tensor  # d n
    B: Tensor  # b n t
    C: Tensor  # b n t
    D: Tensor  # d
    z: Tensor  # b d t
    delta_bias: Tensor  # d


class MambaBlock(nn.Module):
    """Reads tokens (b, t), here bytes; the scan runs over `expand · d_model` channels with `d_state` states each."""

    def __init__(self, vocabulary: int = 256, d_model: int = 768, d_state: int = 16, d_conv: int = 4, expand: int = 2):
        super().__init__()
        width, rank = expand * d_model, math.ceil(d_model / 16)
        self.splits = [rank, d_state, d_state]
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.norm = nn.RMSNorm(d_model)
        self.in_proj = nn.Linear(d_model, 2 * width, bias=False)
        self.conv1d = nn.Conv1d(width, width, d_conv, groups=width, padding=d_conv - 1)
        self.x_proj = nn.Linear(width, sum(self.splits), bias=False)
        self.dt_proj = nn.Linear(rank, width)
        self.A_log = nn.Parameter(torch.arange(1.0, d_state + 1).log().repeat(width, 1))
        self.D = nn.Parameter(torch.ones(width))
        self._initialise_dt(rank, width)

    def _initialise_dt(self, rank: int, width: int) -> None:
        dt = torch.empty(width).uniform_(math.log(DT_MIN), math.log(DT_MAX)).exp()
        with torch.no_grad():
            nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # the inverse of softplus

    @torch.no_grad()
    def scan_inputs(self, tokens: Tensor) -> ScanInputs:
        """What the block computes of tokens (b, t) before its scan.

        Weights stand on the left, so that every array leaves with its steps contiguous; B, C and z are views.
        """
        x, z = (self.in_proj.weight @ self.norm(self.embedding(tokens)).mT).chunk(2, dim=1)
        u = functional.silu(self.conv1d(x)[..., : tokens.shape[1]])
        low_rank, B, C = torch.split(self.x_proj.weight @ u, self.splits, dim=1)
        delta = self.dt_proj.weight @ low_rank  # its bias goes into the scan, as delta_bias
        return ScanInputs(u, delta, -self.A_log.exp(), B, C, self.D.detach(), z, self.dt_proj.bias.detach())
