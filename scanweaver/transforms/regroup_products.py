"""Multiplies first what varies over fewer axes, so that more of a step runs outside of its inner loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from xdsl.context import Context
from xdsl.dialects import arith, builtin
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from scanweaver.dialects import recurrence
from scanweaver.dialects.recurrence import Axes


@dataclass(frozen=True)
class _Product:
    """A factor, or the product of two."""

    axes: Axes
    value: SSAValue | None = None
    parts: tuple[_Product, _Product] | None = None

    @property
    def cost(self) -> int:
        """The axes that the multiplications vary over, one by one."""
        return 0 if self.parts is None else len(self.axes) + sum(part.cost for part in self.parts)


def _inner(value: SSAValue, block: Block) -> arith.MulfOp | None:
    """The multiplication that a value comes from, where nothing else reads it."""
    owner = value.owner
    return owner if isinstance(owner, arith.MulfOp) and owner.parent is block and value.has_one_use() else None


def _tree(op: arith.MulfOp, axes: Mapping[SSAValue, Axes]) -> _Product:
    """The product as it is written."""
    block = op.parent
    assert block is not None

    def part(value: SSAValue) -> _Product:
        inner = _inner(value, block)
        return _Product(axes[value], value) if inner is None else _tree(inner, axes)

    return _Product(axes[op.result], parts=(part(op.lhs), part(op.rhs)))


def _factors(product: _Product) -> Iterator[_Product]:
    if product.parts is None:
        yield product
    else:
        for part in product.parts:
            yield from _factors(part)


def _regrouped(product: _Product) -> _Product:
    """The product of the same factors that takes the two with the fewest axes between them, again and again."""
    left = list(_factors(product))
    while len(left) > 1:
        i, j = min(combinations(range(len(left)), 2), key=lambda pair: len(left[pair[0]].axes | left[pair[1]].axes))
        right = left.pop(j)
        left[i] = _Product(left[i].axes | right.axes, parts=(left[i], right))
    return left[0]


def _write(product: _Product, before: arith.MulfOp) -> SSAValue:
    if product.parts is None:
        assert product.value is not None
        return product.value
    a, b = product.parts
    op = arith.MulfOp(_write(a, before), _write(b, before), before.fastmath)
    op.attributes |= before.attributes
    Rewriter.insert_op(op, InsertPoint.before(before))
    return op.result


def _remove(op: Operation) -> None:
    """A multiplication that nothing reads any more, and those that only it read."""
    operands = list(op.operands)
    Rewriter.erase_op(op)
    for operand in operands:
        if isinstance(operand.owner, arith.MulfOp) and not operand.uses:
            _remove(operand.owner)


def _regroup(op: recurrence.GenericOp) -> None:
    block, axes = op.body.block, op.value_axes()
    products = [inner for inner in block.ops if isinstance(inner, arith.MulfOp)]
    readers = [next(iter(inner.result.uses)).operation if inner.result.has_one_use() else None for inner in products]
    for inner, reader in zip(products, readers, strict=True):
        if isinstance(reader, arith.MulfOp) and reader.parent is block:
            continue  # a part of that product
        written = _tree(inner, axes)
        better = _regrouped(written)
        if better.cost < written.cost:
            inner.result.replace_all_uses_with(_write(better, inner))
            _remove(inner)


@dataclass(frozen=True)
class RegroupProductsPass(ModulePass):
    """
    rewrite: (%dt * %b) * %u  ->  (%dt * %u) * %b      where %b varies over an axis that %dt and %u lack

    In the body of every `recurrence.generic`. A product is regrouped where its multiplications then vary over fewer
    axes; of equal ones the order that is written stays. Re-association of products is all that it takes.
    """

    name = "regroup-products"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for generic in op.walk():
            if isinstance(generic, recurrence.GenericOp):
                _regroup(generic)
