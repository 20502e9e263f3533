"""`scanweaver`: the commands. Each imports what it needs when it runs, so that --help is quick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from scanweaver.errors import ScanWeaverError

_NOT_BUILT_YET = {
    "bench": "Measure against peers; write JSON and plots.",
    "tune": "Find schedules by measuring.",
}


class _OutputFile(click.Path):
    """A file that is there or can be made: its folder is there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        if not path.name or not path.parent.is_dir():
            self.fail(f"expected a file in a folder that is there, got {str(value)!r}", param, ctx)
        return path


_OUTPUT_FILE = _OutputFile(dir_okay=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="scanweaver")
def cli() -> None:
    """ScanWeaver compiles recurrences, each written once as one step, for GPU and CPU."""


@cli.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo_out",
    show_default=True,
    help="Folder for stages, PTX and picture.",
)
@click.option("--device", type=click.Choice(["all", "cpu", "cuda"]), default="all", show_default=True)
def demo(out: Path, device: str) -> None:
    """Run the main job, start to end, on this machine."""
    from scanweaver.cli import demo

    sys.exit(demo.main(out, device))


@cli.command()
def doctor() -> None:
    """Show what was found; exit 1 with what is missing."""
    from scanweaver.cli import doctor

    sys.exit(doctor.main())


def _deciding(command: Any) -> Any:
    """The options that say what a call would."""
    options = (
        click.option("--entry", metavar="NAME", help="The function in FILE.mlir, where it has several."),
        click.option("--dtype", "dtypes", multiple=True, metavar="NAME=DTYPE", help="Of an input; DTYPE: of all."),
        click.option("--size", "sizes", multiple=True, metavar="AXIS=N", help="Of an axis that is reduced or renamed."),
        click.option("--set", "constants", multiple=True, metavar="NAME=VALUE", help="A keyword-only constant."),
        click.option("--leading", type=int, metavar="N", help="How many axes `...` stands for."),
        click.option("--reverse", is_flag=True, default=None, help="From the last step to the first."),
        click.option("--parallel", type=click.Choice(["auto", "require", "never"])),
        click.option("--strategy", metavar="NAME", help="Force a schedule, such as lanes or serial."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@cli.command()
@click.argument("what", metavar="FILE.mlir|module:function")
@click.option("--target", required=True, metavar="CHIP|cpu", help="A chip such as sm_90, or cpu.")
@click.option("-o", "--out", type=_OUTPUT_FILE, metavar="OUT.swa")
@_deciding
def compile(what: str, target: str, out: Path | None, entry: str | None, **decided: Any) -> None:
    """Make an executable artifact of a recurrence; no GPU is needed."""
    from scanweaver.cli import compile, recurrences

    compile.main(what, entry, target, out, recurrences.request(**decided))


@cli.command()
@click.argument("what", metavar="FILE.mlir|module:function|FILE.swa")
@click.option("--target", metavar="CHIP|cpu", help="Else the GPU that is there, or sm_90 and the CPU.")
@click.option("--html", is_flag=True, help="A page with the text of every stage.")
@click.option("--remarks", type=click.Choice(["json"]), help="The same facts for programs.")
@click.option("-o", "--out", type=_OUTPUT_FILE, help="A file; else standard output.")
@_deciding
def explain(
    what: str, target: str | None, html: bool, remarks: str | None, out: Path | None, entry: str | None, **decided: Any
) -> None:
    """Show a recurrence's proof, its schedule and every stage."""
    from scanweaver.cli import explain, recurrences

    if html and remarks:
        raise click.UsageError("--html and --remarks are two forms of one thing: name one")
    form = "html" if html else remarks or "text"
    explain.main(what, form, out, entry, target, recurrences.request(**decided))


def _not_built_yet(name: str, what: str) -> click.Command:
    """A command that takes any arguments and says that it is not there yet."""

    @click.command(name, help=f"{what} (Not built yet.)", context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        del arguments
        click.echo(f"scanweaver: {name} is not built yet", err=True)
        sys.exit(2)

    return command


for _name, _what in _NOT_BUILT_YET.items():
    cli.add_command(_not_built_yet(_name, _what))


def main() -> None:
    """Entry point. Exits 0; 1 with the message where ScanWeaver raised an error or a file would not be read or written;
    2 on wrong usage."""
    try:
        cli()
    except (ScanWeaverError, OSError) as error:
        sys.exit(f"scanweaver: error: {error}")


if __name__ == "__main__":
    main()
