"""What the demo prints: tables on a terminal, plain aligned text in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from scanweaver.demo.measure import Result
from scanweaver.demo.stages import stages
from scanweaver.explain.proof import proofs
from scanweaver.gpu_exec.artifact import Artifact


class Report:
    """Prints to standard output."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False)
        self.console.soft_wrap = not self.console.is_terminal
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None)

    def progress(self, total: int) -> AbstractContextManager[object]:
        """Shows a bar of `total` parts while inside; nothing in a pipe."""
        self._progress.update(self._task, total=total)
        return self._progress

    def next(self, what: str) -> None:
        """The bar's next part begins."""
        self._progress.update(self._task, description=what, advance=1)

    def heading(self, text: str) -> None:
        self.console.print(f"\n[bold]{escape(text)}[/bold]")

    def line(self, text: str, style: str = "") -> None:
        self.console.print(escape(text), style=style)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[str] = (),
        wrapped: Sequence[str] = (),
    ) -> None:
        """Columns named in `right` are aligned to the right; those in `wrapped` give way on a narrow terminal."""
        if self.console.is_terminal:
            table = Table(box=SIMPLE, pad_edge=False, collapse_padding=True)
            for column in columns:
                table.add_column(column, justify="right" if column in right else "left", no_wrap=column not in wrapped)
            for row in rows:
                table.add_row(*map(escape, row))
            self.console.print(table)
            return
        lines = [tuple(columns), *map(tuple, rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        for line in lines:
            cells = (
                cell.rjust(width) if column in right else cell.ljust(width)
                for cell, width, column in zip(line, widths, columns, strict=True)
            )
            self.console.print(escape(("  " + "  ".join(cells)).rstrip()))

    def job(self, result: Result, artifacts: Iterable[Artifact]) -> None:
        """What a job reads, what was proved of it, and the stages of its artifacts."""
        self.heading(f"{result.job.title}, on {result.device}")
        self.line(result.job.about)
        for proved in proofs(result.artifact.stages["scan"]):
            self.line(f"{'not ' * proved.refused}proved: {proved}", style="red" if proved.refused else "green")
        for artifact in artifacts:
            self.stages(artifact)
        self.line(f"first call, with compiling or reading the cache: {duration(result.ready_milliseconds)}")

    def stages(self, artifact: Artifact) -> None:
        """The stages of one artifact, and what its kernels take where ptxas says so."""
        self.line(f"Stages for {artifact.target}")
        rows = [
            (stage.name, stage.made_by, stage.size, "" if stage.milliseconds is None else f"{stage.milliseconds:.1f}")
            for stage in stages(artifact)
        ]
        self.table(("stage", "made by", "size", "ms"), rows, right=("size", "ms"), wrapped=("made by",))
        for kernel, takes in artifact.resources.items():
            self.line(f"{kernel}: {takes['registers']} registers, {takes['spill_bytes']} bytes spilled")

    def results(self, results: Sequence[Result]) -> None:
        """Times against a PyTorch loop; errors against the float64 loop."""
        columns = ("job", "device", "ScanWeaver", "loop", "faster", "error, allowed")
        rows = [
            (
                result.job.name,
                result.device,
                duration(result.milliseconds),
                duration(result.loop_milliseconds),
                f"{result.speedup:.0f} x",
                f"{result.error:.1e} {'<' if result.holds else 'NOT <'} {result.allowed:.0e}",
            )
            for result in results
        ]
        self.table(columns, rows, right=columns[2:6], wrapped=("device",))
        for result in results:
            if result.peer is not None:
                self.line(
                    f"{result.job.name}, {result.device}: {result.peer.error:.1e} from {result.peer.name}, "
                    f"which takes {duration(result.peer.milliseconds)} on the CPU"
                )


def duration(milliseconds: float) -> str:
    """Three digits with the unit that suits them."""
    for unit, size in (("s", 1000.0), ("ms", 1.0)):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds * 1e3:.3g} µs"
