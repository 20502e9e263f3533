"""A barrier is reached by all threads of a block, or none: what stands around it does not depend on the thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from drawing import Program, programs
from hypothesis import HealthCheck, Phase, given, settings
from xdsl.dialects import llvm, scf
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.parser import Parser

import scanweaver as sw
from scanweaver.dialects import context_of_all, gpu


def around(op: Operation) -> Iterator[SSAValue]:
    """What decides whether and how often an operation runs."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, gpu.FuncOp):
        assert isinstance(parent, scf.IfOp | scf.ForOp), f"a barrier in {parent.name}"
        yield from parent.operands if isinstance(parent, scf.IfOp) else (parent.lb, parent.ub, parent.step)
        parent = parent.parent_op()


def depends_on_thread(value: SSAValue, seen: set[SSAValue]) -> bool:
    if value in seen:
        return False
    seen.add(value)
    if isinstance(value, BlockArgument):
        owner = value.block.parent_op()
        if isinstance(owner, gpu.FuncOp):
            return False
        assert isinstance(owner, scf.ForOp)
        end = owner.body.block.last_op
        assert end is not None
        return any(depends_on_thread(operand, seen) for operand in (*owner.operands, *end.operands))
    op = value.owner
    assert isinstance(op, Operation)
    if isinstance(op, gpu.ThreadIdOp | gpu.LaneIdOp | gpu.ShuffleOp | llvm.LoadOp):
        return True
    inside = [operand for inner in op.walk() for operand in inner.operands]
    return any(depends_on_thread(operand, seen) for operand in inside)


def divergent(text: str) -> list[Operation]:
    barriers = [op for op in Parser(context_of_all(), text).parse_module().walk() if isinstance(op, gpu.BarrierOp)]
    return [op for op in barriers if any(depends_on_thread(value, set()) for value in around(op))]


def text_of(program: Program, strategy: str) -> str:
    dtypes = {f"x{i}": x.dtype for i, x in enumerate(program.inputs)}
    return program.recurrence().ir("gpu", target="sm_90", dtypes=dtypes, strategy=strategy)


@pytest.mark.parametrize("strategy", ["lanes", "blelloch"])
@given(program=programs(affine=True))
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
def test_all_threads_reach_a_barrier(strategy: str, program: Program) -> None:
    assert not divergent(text_of(program, strategy))


def test_sweeps_have_barriers() -> None:
    """So that the drawn programs have something to say."""
    affine = sw.recurrence("h[b]; a[b t], x[b t]", strategy="blelloch")(lambda h, a, x: a * h + x)
    assert "gpu.barrier" in affine.ir("gpu", target="sm_90", dtypes=dict.fromkeys("ax", torch.float32))


def test_one_that_some_threads_miss_is_seen() -> None:
    module: Any = """
    gpu.module @kernels { gpu.func @f(%n: index) kernel {
      %x = gpu.thread_id x
      %few = arith.cmpi slt, %x, %n : index
      scf.if %few { gpu.barrier }
      gpu.return } }"""
    assert len(divergent(module)) == 1
    assert not divergent(module.replace("gpu.thread_id x", "gpu.block_id x"))
