"""Moves between memory and the lanes of vectors that take an operation a lane, as functions.

W is the number of lanes; elements are of the type that memory holds; strides and offsets count elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import llvm, vector
from xdsl.dialects.builtin import DenseArrayBase, FixedBitwidthType, VectorType, i8, i32, i64
from xdsl.ir import Attribute, Block, SSAValue

from scanweaver.dialects.arith import split_type
from scanweaver.transforms.functions import Functions
from scanweaver.transforms.skeleton.scopes import Writer

PREFETCH_BYTES = 256
"""How far ahead of a walk through time its rows are asked for: more rows than the hardware follows by itself."""

Body = Callable[[Writer, Sequence[SSAValue]], Sequence[SSAValue]]


class LaneMoves:
    """The moves of a kernel whose vectors have `width` lanes."""

    def __init__(self, functions: Functions, width: int):
        self.functions = functions
        self.width = width

    def gather(self, write: Writer, element: Attribute, base: SSAValue, stride: SSAValue) -> SSAValue:
        """Lane i has the element at base + i·stride."""

        def body(write: Writer, arguments: Sequence[SSAValue]) -> list[SSAValue]:
            base, stride = arguments
            return [self._collected(write, element, lambda i: _strided(write, base, i, stride, element))]

        return self._call(write, "gather", element, [base, stride], [self._vector(element)], body)[0]

    def gather_at(self, write: Writer, element: Attribute, base: SSAValue, offsets: SSAValue) -> SSAValue:
        """Lane i has the element at base + offsets[i]."""

        def body(write: Writer, arguments: Sequence[SSAValue]) -> list[SSAValue]:
            base, offsets = arguments
            return [self._collected(write, element, lambda i: moved(write, base, _lane(write, offsets, i), element))]

        return self._call(write, "gather_at", element, [base, offsets], [self._vector(element)], body)[0]

    def scatter(self, write: Writer, value: SSAValue, base: SSAValue, stride: SSAValue) -> None:
        """Lane i goes to base + i·stride."""
        element = split_type(value.type)[0]

        def body(write: Writer, arguments: Sequence[SSAValue]) -> list[SSAValue]:
            value, base, stride = arguments
            for i in range(self.width):
                write.insert(llvm.StoreOp(_lane(write, value, i), _strided(write, base, i, stride, element)))
            return []

        self._call(write, "scatter", element, [value, base, stride], [], body)

    def load_steps(
        self, write: Writer, element: Attribute, base: SSAValue, stride: SSAValue, count: int, ahead: int
    ) -> list[SSAValue]:
        """`count` vectors; vector k has W neighbours from base + k·stride. `ahead`: 1 or -1, the way of time."""

        def body(write: Writer, arguments: Sequence[SSAValue]) -> list[SSAValue]:
            base, stride = arguments
            rows: list[SSAValue] = []
            next = _strided(write, base, ahead * count, stride, element)
            for k in range(count):
                at = _strided(write, base, k, stride, element)
                rows.append(write.value(llvm.LoadOp(at, self._vector(element), alignment=_bytes(element))))
                _prefetch(write, _strided(write, next, k, stride, element), 0)
            return rows

        name = f"load_{count}_steps" if ahead > 0 else f"load_{count}_steps_back"
        return self._call(write, name, element, [base, stride], [self._vector(element)] * count, body)

    def load_rows(
        self, write: Writer, element: Attribute, base: SSAValue, stride: SSAValue, count: int, ahead: int
    ) -> list[SSAValue]:
        """`count` vectors; lane i of vector k has the element at base + i·stride + k. `ahead`: the way of time."""

        def body(write: Writer, arguments: Sequence[SSAValue]) -> list[SSAValue]:
            base, stride = arguments
            rows: list[SSAValue] = []
            for i in range(self.width):
                at = _strided(write, base, i, stride, element)
                rows.append(write.value(llvm.LoadOp(at, VectorType(element, [count]), alignment=_bytes(element))))
                _prefetch(write, at, ahead * PREFETCH_BYTES)
            joined = [_joined(write, rows[k::count]) for k in range(count)]
            return _transposed(write, joined)

        name = f"load_{count}_of_rows" if ahead > 0 else f"load_{count}_of_rows_back"
        return self._call(write, name, element, [base, stride], [self._vector(element)] * count, body)

    def store_rows(self, write: Writer, values: Sequence[SSAValue], base: SSAValue, stride: SSAValue) -> None:
        """The inverse: lane i of vector k goes to base + i·stride + k."""
        element, count = split_type(values[0].type)[0], len(values)

        def body(write: Writer, arguments: Sequence[SSAValue]) -> list[SSAValue]:
            base, stride, *values = arguments
            joined = _transposed(write, values)
            for i in range(self.width):
                begin = i // count * count
                row = joined[i % count]
                if count < self.width:
                    row = shuffled(write, row, row, range(begin, begin + count))
                at = _strided(write, base, i, stride, element)
                write.insert(llvm.StoreOp(row, at, alignment=_bytes(element)))
            return []

        self._call(write, f"store_{count}_of_rows", element, [base, stride, *values], [], body)

    def _vector(self, element: Attribute) -> VectorType[Attribute]:
        return VectorType(element, [self.width])

    def _call(
        self,
        write: Writer,
        move: str,
        element: Attribute,
        operands: Sequence[SSAValue],
        results: Sequence[Attribute],
        body: Body,
    ) -> list[SSAValue]:
        def written(block: Block) -> Sequence[SSAValue]:
            return body(Writer(block), block.args)

        name = f"{move}_{self.width}x{element}"
        return list(write.insert(self.functions.call(name, operands, results, written, inlined=False)).results)

    def _collected(self, write: Writer, element: Attribute, address: Callable[[int], SSAValue]) -> SSAValue:
        """A vector of the elements at an address a lane."""
        result: SSAValue | None = None
        for i in range(self.width):
            scalar = write.value(llvm.LoadOp(address(i), element, alignment=_bytes(element)))
            if result is None:
                result = write.value(vector.BroadcastOp(scalar, self._vector(element)))
            else:
                result = write.value(vector.InsertOp(scalar, result, [i]))
        assert result is not None
        return result


def moved(write: Writer, base: SSAValue, offset: SSAValue, element: Attribute) -> SSAValue:
    """The address `offset` elements after another."""
    assert isinstance(base.type, llvm.LLVMPointerType)
    return write.value(llvm.GEPOp(base, [llvm.GEP_USE_SSA_VAL], element, [offset], result_type=base.type))


def _strided(write: Writer, base: SSAValue, i: int, stride: SSAValue, element: Attribute) -> SSAValue:
    return base if i == 0 else moved(write, base, write.mul(write.constant(i), stride), element)


def _lane(write: Writer, value: SSAValue, i: int) -> SSAValue:
    return write.value(vector.ExtractOp(value, [i], split_type(value.type)[0]))


def _prefetch(write: Writer, address: SSAValue, distance: int) -> None:
    """Asks for the cache line at a distance in bytes. Into the second level: W rows at a stride of a page share a set
    of the first."""
    at = moved(write, address, write.constant(distance), i8) if distance else address
    to_read, second_level, data = (write.constant(value, i32) for value in (0, 2, 1))
    write.insert(llvm.CallIntrinsicOp("llvm.prefetch.p0", [at, to_read, second_level, data], []))


def _joined(write: Writer, parts: Sequence[SSAValue]) -> SSAValue:
    """Vectors one after the other, as one; a power of two of them."""
    while len(parts) > 1:
        size = (split_type(parts[0].type)[1] or (1,))[0]
        parts = [shuffled(write, a, b, range(2 * size)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _transposed(write: Writer, values: Sequence[SSAValue]) -> list[SSAValue]:
    """K vectors of blocks of K lanes with every square of blocks transposed: log2(K) rounds that exchange halves of
    ever other pairs."""
    values = list(values)
    size = (split_type(values[0].type)[1] or (1,))[0]
    distance = 1
    while distance < len(values):
        for i in range(len(values)):
            if i & distance:
                continue
            low, high = values[i], values[i | distance]
            take_low = [c if not c & distance else size + (c ^ distance) for c in range(size)]
            take_high = [c ^ distance if not c & distance else size + c for c in range(size)]
            values[i] = shuffled(write, low, high, take_low)
            values[i | distance] = shuffled(write, low, high, take_high)
        distance *= 2
    return values


def shuffled(write: Writer, a: SSAValue, b: SSAValue, mask: Sequence[int]) -> SSAValue:
    """The elements of a, then b, that a mask names."""
    type = VectorType(split_type(a.type)[0], [len(mask)])
    return write.value(vector.ShuffleOp(a, b, DenseArrayBase.from_list(i64, list(mask)), result_type=type))


def _bytes(element: Attribute) -> int:
    assert isinstance(element, FixedBitwidthType), f"no size for {element}"
    return element.bitwidth // 8
