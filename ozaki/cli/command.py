"""The arguments of `python -m ozaki`, and its errors: one clear line, and exit status 2."""

from __future__ import annotations

import argparse
import sys
from io import TextIOWrapper
from pathlib import Path

from rich.console import Console
from rich.live import Live

import ozaki
from multiword.engines import ENGINES
from ozaki.arguments import check_accuracy
from ozaki.cli.compiling import compile_and_say
from ozaki.cli.demo import demo
from ozaki.cli.files import multiply_files
from ozaki.cli.info import info
from ozaki.product.request import SCHEMES, TARGETS

_DESCRIPTION = """\
Matrix products in double precision, with the same bits on every machine.

  python -m ozaki                          what depends on the order of additions, and what does not
  python -m ozaki info                     engines, devices and libraries found here
  python -m ozaki compile                  compile now what is compiled at first use otherwise
  python -m ozaki a.npy b.npy -o c.npy     multiply the matrices of two files into a third
  python -m ozaki run script.py ...        run a program on CuPy, its matrix products replaced

Files are .npy, .csv with commas, or MatrixMarket's .mtx; results .npy or .csv; - is a .npy
file from the standard input or to the standard output. The product is float64, or complex128 if one of the
matrices is complex.
"""
_ACCURACIES = "fp64|fp32|normwise|exact|BITS"


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return the exit status.

    0: done; 1: the demonstration found other bits than expected; 2: it cannot be done, with a
    message; 130: interrupted. What the script of `run` raises is raised, but for `sys.exit(0)`.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["run"]:
        return run_script(arguments[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII locale shows what it can
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return _done(parser, options, Console(stderr=str(options.output) == "-"))
    except (OSError, ValueError, TypeError, ImportError, MemoryError, RuntimeError) as error:
        what = (
            f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        )
        print(f"ozaki: {what}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ozaki: interrupted; no file was changed", file=sys.stderr)
        return 130


def _done(parser: argparse.ArgumentParser, options: argparse.Namespace, console: Console) -> int:
    """Do what the options say; return the exit status."""
    files, output = options.files, options.output
    if not files and output is not None:
        parser.error("-o needs two files to multiply, as in: a.npy b.npy -o c.npy")
    if not files:
        waiting = "Computing. What is compiled at the first use takes some ten seconds, once."
        with Live(waiting, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
            return 0 if demo(console) else 1
    if files == ["info"]:
        info(console)
        return 0
    if files == ["compile"]:
        return 0 if compile_and_say(console) else 1
    if len(files) != 2:
        parser.error(f"expected two files, got {len(files)}: {' '.join(files)}")
    if files == ["-", "-"]:
        parser.error("only one of the files can be -, the standard input")
    if output is None:
        parser.error("missing output file; add -o c.npy")
    chosen = {"accuracy": options.accuracy, "scheme": options.scheme, "engine": options.engine}
    multiply_files(Path(files[0]), Path(files[1]), output, chosen, console)
    return 0


def run_script(arguments: list[str]) -> int:
    """Run a program in `ozaki.cupy.emulated`; say on the standard error which products were replaced."""
    parser = argparse.ArgumentParser(
        prog="python -m ozaki run", description="Run a program on CuPy with its matrix products replaced."
    )
    help_of_accuracy = "of the products; normwise is the default, or what OZAKI_CUPY says"
    parser.add_argument("--accuracy", type=_accuracy, metavar=_ACCURACIES, help=help_of_accuracy)
    help_of_minimum = "multiplications below which CuPy computes a product itself; 0 is the default"
    parser.add_argument("--minimum", type=int, metavar="N", help=help_of_minimum)
    help_of_dtypes = "replace products of this dtype, instead of float64 and complex128; may be repeated"
    parser.add_argument("--dtypes", action="append", choices=[d.name for d in TARGETS], help=help_of_dtypes)
    parser.add_argument("script", type=Path, metavar="script.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the program")
    options = parser.parse_args(arguments)
    if not options.script.is_file():
        parser.error(f"there is no file {options.script}")
    try:
        from ozaki import cupy
    except ImportError as error:
        parser.exit(2, f"ozaki: {error}\n")
    names = ("accuracy", "minimum", "dtypes")
    chosen = {name: x for name, x in vars(options).items() if name in names and x is not None}
    calls = cupy.run(str(options.script), *options.arguments, **chosen)
    print(calls or "no CuPy product was replaced", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ozaki",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"ozaki-multiword {ozaki.__version__}")
    add("files", nargs="*", metavar="FILE", help="two files with a matrix or vector each; info; or compile")
    add("-o", "--output", type=Path, metavar="FILE", help="the .npy or .csv file to write")
    add(
        "--accuracy",
        type=_accuracy,
        default="fp64",
        metavar=_ACCURACIES,
        help="fp64, fp32: error certified below the bound of a native product of that precision (fp64 is the"
        " default); normwise: below sqrt(k) u times the norms of row and column; exact: correctly"
        " rounded; BITS: rows and columns rounded to integers of 1 to 2200 bits",
    )
    same_bits = "; the bits are the same with each"
    add("--scheme", choices=("auto", *SCHEMES), default="auto", help="auto is residues" + same_bits)
    help_of_engine = "auto computes on the CPU; cublas copies the matrices to the GPU" + same_bits
    add("--engine", choices=("auto", *ENGINES), default="auto", help=help_of_engine)
    return parser


def _accuracy(text: str) -> str | int:
    accuracy = int(text) if text.isascii() and text.isdigit() else text
    try:
        check_accuracy(accuracy)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return accuracy
