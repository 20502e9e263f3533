"""`#scan.schedule`: how a scan is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

SHUFFLE, BLELLOCH = "shuffle", "blelloch"
ALGORITHMS = (SHUFFLE, BLELLOCH)
"""How a block scans its participants' folds."""


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """Where each value of a scan lives.

        #scan.schedule<target = "sm_90", order = [b, d], vector = "", lanes = 32, warps = 1, row_lanes = 1,
                       row_warps = 4, steps = 4>

    `order`: the parallel axes as rows are numbered, innermost last. `lanes` of a warp and `warps` of a block take
    consecutive stretches of `steps` steps of one row's tile of `lanes · warps · steps` steps; `row_lanes` lanes and
    `row_warps` warps take neighbouring rows. All four 1 across time is the serial walk. On a CPU, `vector` is the axis
    that the `row_lanes` elements of a vector run along ("": scalars). `algorithm`, where it is not `shuffle`, is how a
    block scans the folds: `blelloch`.
    """

    name = "scan.schedule"
    target: StringAttr
    order: ArrayAttr[StringAttr]
    vector: StringAttr
    lanes: IntAttr
    warps: IntAttr
    row_lanes: IntAttr
    row_warps: IntAttr
    steps: IntAttr
    algorithm: StringAttr

    def __init__(
        self,
        target: str,
        order: Sequence[str],
        *,
        vector: str = "",
        lanes: int = 1,
        warps: int = 1,
        row_lanes: int = 1,
        row_warps: int = 1,
        steps: int = 1,
        algorithm: str = SHUFFLE,
    ):
        super().__init__(
            StringAttr(target),
            ArrayAttr(StringAttr(axis) for axis in order),
            StringAttr(vector),
            *(IntAttr(value) for value in (lanes, warps, row_lanes, row_warps, steps)),
            StringAttr(algorithm),
        )

    @property
    def order_axes(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.order)

    @property
    def is_serial(self) -> bool:
        return self.lanes.data * self.warps.data == 1

    @property
    def tile(self) -> int:
        """Steps of one tile: a sequence cut at a multiple of it gives the same bits."""
        return self.lanes.data * self.warps.data * self.steps.data

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes.data * self.warps.data * self.row_lanes.data * self.row_warps.data

    @property
    def rows_per_block(self) -> int:
        return self.row_lanes.data * self.row_warps.data

    def verify(self) -> None:
        for name in ("lanes", "warps", "row_lanes", "row_warps", "steps"):
            if cast(IntAttr, getattr(self, name)).data < 1:
                raise VerifyException(f"{name} of a schedule must be 1 or more")
        if self.algorithm.data not in ALGORITHMS:
            raise VerifyException(
                f"algorithm of a schedule is one of {', '.join(ALGORITHMS)}, got {self.algorithm.data}"
            )
        if self.target.data == "cpu":
            if not self.is_serial:
                raise VerifyException("a CPU walks time in order: lanes and warps must be 1")
        elif self.lanes.data * self.row_lanes.data != 32:
            raise VerifyException(
                f"lanes and row_lanes share the 32 lanes of a warp, got {self.lanes.data} x {self.row_lanes.data}"
            )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("target = ")
            printer.print_string_literal(self.target.data)
            printer.print_string(f", order = [{', '.join(self.order_axes)}], vector = ")
            printer.print_string_literal(self.vector.data)
            for name in ("lanes", "warps", "row_lanes", "row_warps", "steps"):
                printer.print_string(f", {name} = {cast(IntAttr, getattr(self, name)).data}")
            if self.algorithm.data != SHUFFLE:
                printer.print_string(f", algorithm = {self.algorithm.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def key(name: str, first: bool = False) -> None:
            if not first:
                parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")

        with parser.in_angle_brackets():
            key("target", first=True)
            target = StringAttr(parser.parse_str_literal())
            key("order")
            order = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
            key("vector")
            parameters: list[Attribute] = [
                target,
                ArrayAttr(StringAttr(axis) for axis in order),
                StringAttr(parser.parse_str_literal()),
            ]
            for name in ("lanes", "warps", "row_lanes", "row_warps", "steps"):
                key(name)
                parameters.append(IntAttr(parser.parse_integer()))
            algorithm = SHUFFLE
            if parser.parse_optional_punctuation(","):
                key("algorithm", first=True)
                algorithm = parser.parse_identifier()
        return [*parameters, StringAttr(algorithm)]
