"""Recurrences on the caller's device and stream, from several threads, and in captured graphs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import reference
import torch
from reference import assert_accurate
from seed import SEED

import scanweaver as sw

pytestmark = pytest.mark.gpu


@sw.recurrence("h[b d n]; x[b d t], A[d n], B[b n t] -> y[b d t]")
def states(h: Any, x: Any, A: Any, B: Any) -> Any:
    h = sw.exp(A) * h + B * x
    return h, sw.sum(h, "n")


def affine(x: torch.Tensor) -> torch.Tensor:
    return sw.affine_scan(x, x)


def selective(x: torch.Tensor) -> torch.Tensor:
    A = torch.full((x.shape[1], 4), -0.5, device=x.device)
    return states(x, A, x[:, :4])


FUNCTIONS = pytest.mark.parametrize("function", [affine, selective])
Function = Callable[[torch.Tensor], torch.Tensor]


def inputs(device: str = "cuda") -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(SEED)
    return 2 * torch.rand(4, 64, 1000, device=device, generator=generator) - 1


@FUNCTIONS
def test_a_side_stream_whose_input_is_written_late(function: Function) -> None:
    """ref: cudnn-frontend PR 483"""
    x = inputs()
    wanted = [function(x * (k / 4)) for k in range(4)]  # warm-up on the default stream
    torch.cuda.synchronize()
    late = torch.zeros_like(x)
    scaled = [x * (k / 4) for k in range(4)]
    side = torch.cuda.Stream()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for i in range(200):
            late.fill_(torch.nan)
            torch.cuda._sleep(200_000)  # about 0.1 ms: the input is not there when the launch is made
            late.copy_(scaled[i % 4])
            wrong += (function(late) != wanted[i % 4]).sum()
    side.synchronize()
    assert int(wrong) == 0


@FUNCTIONS
def test_a_second_device_while_the_first_is_current(function: Function) -> None:
    """ref: triton-lang/triton 2441, cupy 5795"""
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs two GPUs: {torch.cuda.device_count()} found")
    wanted = function(inputs("cuda:0"))
    with torch.cuda.device(0):
        for index in (1, 0, 1):
            x = inputs("cuda:0").to(f"cuda:{index}")
            y = function(x)
            assert y.device == x.device
            assert torch.equal(y.to("cuda:0"), wanted)
            assert torch.cuda.current_device() == 0


def test_tensors_of_two_devices_are_refused() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs two GPUs: {torch.cuda.device_count()} found")
    x = inputs("cuda:0")
    with pytest.raises(sw.SignatureError, match=r"is on cuda:1, and .* is on cuda:0"):
        sw.affine_scan(x.to("cuda:1"), x)


@FUNCTIONS
def test_a_captured_graph_replays_on_new_values(function: Function) -> None:
    x = inputs()
    wanted, doubled = function(x), function(2 * x)
    held = x.clone()
    function(held)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = function(held)
    for values, want in ((x, wanted), (2 * x, doubled), (x, wanted)):
        held.copy_(values)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, want)


@FUNCTIONS
def test_several_threads_each_on_a_stream_of_its_own(function: Function) -> None:
    x = inputs()
    scaled = [x * (k / 4) for k in range(4)]
    wanted = [function(s) for s in scaled]
    torch.cuda.synchronize()
    wrong: list[int] = []

    def work(k: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            wrong.append(sum(int((function(scaled[k]) != wanted[k]).sum()) for _ in range(50)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * 4


@FUNCTIONS
def test_the_same_bits_every_run_and_whatever_the_other_rows(function: Function) -> None:
    x = inputs()
    first = function(x)
    assert all(torch.equal(function(x), first) for _ in range(20))
    others = x.clone()
    others[1:] = torch.nan
    assert torch.equal(function(others)[0], first[0])


@pytest.mark.host_tools
def test_a_gpu_and_a_cpu_agree() -> None:
    x = inputs()
    assert_accurate(affine(x), reference.affine, x, x)
    torch.testing.assert_close(selective(x).cpu(), selective(x.cpu()), rtol=1e-4, atol=1e-5)
