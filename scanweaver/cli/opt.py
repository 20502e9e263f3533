"""`scanweaver-opt`: what `xdsl-opt` does, with our dialects and passes, and targets down to a cubin."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import IO, ClassVar, NoReturn, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.universe import Universe
from xdsl.utils.arg_spec import ArgSpec, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError, PassFailedException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from scanweaver import __version__
from scanweaver.cli.plugins import passes_of
from scanweaver.cli.targets import CHIP_TARGETS
from scanweaver.dialects import get_all_dialects
from scanweaver.errors import ScanWeaverError
from scanweaver.transforms import get_all_passes


class UsageError(Exception):
    """The command line, not the module, is wrong."""


class ScanWeaverOptMain(xDSLOptMain):
    """xDSL's driver: its hooks overridden, its `__init__` and `run` as they are."""

    version_format: ClassVar[str] = f"scanweaver-opt {__version__} on xdsl {{xdsl_version}}"

    def register_all_dialects(self) -> None:
        dialects = Universe.get_multiverse().all_dialects | get_all_dialects()  # ours replace xDSL's
        for name, factory in dialects.items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        passes = Universe.get_multiverse().all_passes | get_all_passes()
        for name, factory in passes.items():
            self.register_pass(name, factory)

    def register_all_targets(self) -> None:
        super().register_all_targets()
        self.available_targets.update(CHIP_TARGETS)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.add_argument(
            "--chip",
            help="chip that the targets nvvm, ptx and cubin compile for (default: sm_90)",
        )
        arg_parser.add_argument(
            "--load-pass-plugin",
            metavar="FILE.py",
            action="append",
            default=[],
            help="a Python file whose passes -p then knows as well; may be given again",
        )

    def setup_pipeline(self) -> None:
        """Reads passes and target, so that a misspelt option is told before anything runs."""
        for file in self.args.load_pass_plugin:
            self._load_passes(Path(file))
        try:
            super().setup_pipeline()
        except ValueError as error:
            raise UsageError(f"argument -p/--passes: {error}") from error
        try:
            self.target = self._read_target()
        except ValueError as error:
            raise UsageError(f"argument -t/--target: {error}") from error
        except ModuleNotFoundError as error:
            raise UsageError(f"-t {self.args.target} needs the package {error.name}, which is not there") from error

    def _load_passes(self, path: Path) -> None:
        try:
            passes = passes_of(path)
        except ValueError as error:
            raise UsageError(f"argument --load-pass-plugin: {error}") from error
        for name, of in passes.items():
            if name in self.available_passes:
                raise UsageError(f"argument --load-pass-plugin: {path} defines {name}, a pass that is there already")
            self.register_pass(name, lambda of=of: of)

    def _read_target(self) -> Target:
        spec = parse_spec(self.args.target)
        if self.args.chip is not None:
            if spec.name not in CHIP_TARGETS:
                raise UsageError(f"--chip goes with -t {', '.join(CHIP_TARGETS)}; the target is {spec.name}")
            spec = ArgSpec(spec.name, {"chip": (self.args.chip,)} | spec.parameters)
        factory = cast(Callable[[], type[Target]], self.available_targets[spec.name])
        return factory().from_spec(spec)

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        if self.args.split_input_file and self.target.name == "cubin":
            raise UsageError("-t cubin writes one binary, so --split-input-file does not go with it")
        try:
            return super().prepare_input()
        except OSError as error:
            raise UsageError(f"cannot read {self.args.input_file}: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"cannot read {self.args.input_file}: {error} (expected .mlir)") from error

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        try:
            return super().parse_chunk(chunk, file_extension, start_offset)
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.get_input_name()} is not UTF-8 text: {error}") from error

    def prepare_output(self) -> IO[str]:
        try:
            return self._prepare_bytes() if self.target.name == "cubin" else super().prepare_output()
        except OSError as error:
            raise UsageError(f"cannot write {self.args.output_file}: {error.strerror}") from error

    def _prepare_bytes(self) -> IO[str]:
        """A text stream that writes the characters 0 to 255 as the bytes of these numbers."""
        path = self.args.output_file
        if path is None and sys.stdout.isatty():
            raise UsageError("-t cubin writes bytes: name a file with -o, or send them to a pipe")
        where = sys.stdout.fileno() if path is None else path
        return open(where, "w", encoding="latin-1", newline="", closefd=path is not None)

    def apply_passes(self, prog: ModuleOp) -> None:
        try:
            super().apply_passes(prog)
        except ScanWeaverError as error:  # so that --verify-diagnostics shows our refusals as well
            raise PassFailedException(str(error)) from error

    def output_resulting_program(self, prog: ModuleOp) -> str:
        if self.target.name not in CHIP_TARGETS:
            return super().output_resulting_program(prog)
        output = StringIO()
        self.target.emit(self.ctx, prog, output)
        return output.getvalue()


def main(args: list[str] | None = None) -> None:
    """Entry point. Exits 0; 1 where the module, a pass or a tool fails; 2 where the command line is wrong."""
    try:
        ScanWeaverOptMain("ScanWeaver's modular optimizer driver", args).run()
    except (UsageError, ArgSpecParseError) as error:
        _fail(error, code=2)
    except (ParseError, DiagnosticException, ScanWeaverError) as error:
        _fail(error, code=1)
    except BrokenPipeError:  # `scanweaver-opt … | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: BaseException, code: int) -> NoReturn:
    sys.stdout.flush()
    print(f"scanweaver-opt: error: {error}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print(note, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
