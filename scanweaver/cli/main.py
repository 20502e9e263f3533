"""`scanweaver`: the commands. Each imports what it needs when it runs, so that --help is quick."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scanweaver.errors import ScanWeaverError

_NOT_BUILT_YET = {
    "bench": "Measure against peers; write JSON and plots.",
    "compile": "Make an executable artifact of a recurrence.",
    "explain": "Show a recurrence's proof, its schedule and every stage.",
    "tune": "Find schedules by measuring.",
}


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
    """Entry point. Exits 0; 1 with the message where ScanWeaver raised an error; 2 on wrong usage."""
    try:
        cli()
    except ScanWeaverError as error:
        sys.exit(f"scanweaver: error: {error}")


if __name__ == "__main__":
    main()
