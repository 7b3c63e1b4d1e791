"""The arguments of `python -m ozaki`, and its errors: one clear line, and exit status 2."""

from __future__ import annotations

import argparse
import sys
from io import TextIOWrapper
from pathlib import Path

from rich.console import Console

import ozaki
from multiword.engines import ENGINES
from ozaki.cli.compiling import compile_and_say
from ozaki.cli.demo import demo
from ozaki.cli.files import multiply_files
from ozaki.cli.info import info

_DESCRIPTION = """\
Matrix products in double precision, with the same bits on every machine.

  python -m ozaki                          what depends on the order of additions, and what does not
  python -m ozaki info                     engines, devices and libraries found here
  python -m ozaki compile                  compile now what is compiled at first use otherwise
  python -m ozaki a.npy b.npy -o c.npy     multiply the matrices of two files into a third

Files are .npy, .csv with commas, or MatrixMarket's .mtx, which SciPy reads; results .npy or .csv; - is a .npy
file from the standard input or to the standard output. The product is float64, or complex128 if one of the
matrices is complex.
"""


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return the exit status.

    0: done; 1: the demonstration found other bits than expected; 2: it cannot be done, with a
    message; 130: interrupted.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII locale shows what it can
    console = Console(stderr=str(options.output) == "-")
    try:
        return _done(parser, options, console)
    except OSError as error:
        print(f"ozaki: {_described(error)}", file=sys.stderr)
        return 2
    except (ValueError, TypeError, ImportError, MemoryError, RuntimeError) as error:
        print(f"ozaki: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ozaki: interrupted; no file was changed", file=sys.stderr)
        return 130


def _done(parser: argparse.ArgumentParser, options: argparse.Namespace, console: Console) -> int:
    """Do what the options say; return the exit status."""
    files = options.files
    if not files and options.output is not None:
        parser.error("-o needs two files to multiply, as in: a.npy b.npy -o c.npy")
    if not files:
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
    if options.output is None:
        parser.error("missing output file; add -o c.npy")
    chosen = {"accuracy": options.accuracy, "scheme": options.scheme, "engine": options.engine}
    first, second = map(Path, files)
    multiply_files(first, second, options.output, chosen, console)
    return 0


def _described(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ozaki",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ozaki-multiword {ozaki.__version__}")
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="two files with a matrix or vector each; info; or compile",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the .npy or .csv file to write")
    parser.add_argument(
        "--accuracy",
        type=_accuracy,
        default="fp64",
        metavar="fp64|normwise|exact|BITS",
        help="fp64: error certified below the bound of a native DGEMM (the default); normwise: below"
        " sqrt(k) u times the norms of row and column; exact: correctly"
        " rounded; BITS: rows and columns rounded to integers of 1 to 2200 bits",
    )
    parser.add_argument(
        "--scheme",
        choices=("auto", "residues", "slices"),
        default="auto",
        help="auto is residues; the bits are the same with each",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", *ENGINES),
        default="auto",
        help="auto is host; cublas copies the matrices to the GPU; the bits are the same with each",
    )
    return parser


def _accuracy(text: str) -> str | int:
    if text in ("fp64", "normwise", "exact"):
        return text
    if text.isdecimal() and 1 <= int(text) <= 2200:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"must be fp64, normwise, exact or a number of bits up to 2200, not {text!r}"
    )
