"""Functions for what is long to write and stands in many places: kernels stay short to read and quick to lower."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

Body = Callable[[Block], Sequence[SSAValue]]
"""Writes a function into its block, from the block's arguments, and gives the results."""


class Functions:
    """The private functions of a module, each written when it is first called."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self.known = {op.sym_name.data for op in module.body.block.ops if isinstance(op, func.FuncOp)}

    def call(
        self, name: str, operands: Sequence[SSAValue], results: Sequence[Attribute], body: Body, *, inlined: bool
    ) -> func.CallOp:
        """A call, to be inserted by the caller. The name tells the function apart: types belong into it.

        `inlined`: everywhere; else where LLVM thinks it worth its size.
        """
        if name not in self.known:
            self.known.add(name)
            self.module.body.block.add_op(
                _function(name, [operand.type for operand in operands], results, body, inlined)
            )
        return func.CallOp(name, operands, results)

    def extern(self, name: str, operands: Sequence[SSAValue], results: Sequence[Attribute]) -> func.CallOp:
        """A call of a function of the C library."""
        if name not in self.known:
            self.known.add(name)
            self.module.body.block.add_op(func.FuncOp.external(name, [o.type for o in operands], results))
        return func.CallOp(name, operands, results)


def _function(
    name: str, arguments: Sequence[Attribute], results: Sequence[Attribute], body: Body, inlined: bool
) -> func.FuncOp:
    block = Block(arg_types=arguments)
    block.add_op(func.ReturnOp(*body(block)))
    function = func.FuncOp(name, FunctionType.from_lists(arguments, results), Region(block), "private")
    function.attributes["llvm.linkage"] = llvm.LinkageAttr("internal")
    if inlined:
        function.attributes["passthrough"] = ArrayAttr([StringAttr("alwaysinline")])
    return function
