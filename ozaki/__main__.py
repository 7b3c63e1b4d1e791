"""`python -m ozaki`: a demonstration, this machine's abilities, or a product of files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from ozaki.cli.demo import demo
from ozaki.cli.files import multiply_files
from ozaki.cli.info import info

_DESCRIPTION = """\
Matrix products in double precision with the same bits on every machine.

  python -m ozaki                          products that np.matmul gets wrong, side by side
  python -m ozaki info                     engines, devices and libraries found here
  python -m ozaki a.npy b.npy -o c.npy     multiply the matrices of two files into a third
"""


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return the exit status: 2 if it cannot be done, with a message."""
    parser = _parser()
    options = parser.parse_args(arguments)
    console = Console()
    if options.files == ["info"]:
        info(console)
        return 0
    if not options.files:
        if options.output is not None:
            parser.error("two files to multiply are needed with -o")
        return 0 if demo(console) else 1
    if len(options.files) != 2:
        parser.error(f"two files are needed, got {len(options.files)}: {' '.join(options.files)}")
    if options.output is None:
        parser.error("where to write the product is needed: -o c.npy")
    chosen = {"accuracy": options.accuracy, "scheme": options.scheme, "engine": options.engine}
    try:
        first, second = map(Path, options.files)
        multiply_files(first, second, options.output, chosen, console)
    except OSError as error:
        print(
            f"ozaki: {error.filename}: {error.strerror}" if error.filename else f"ozaki: {error}",
            file=sys.stderr,
        )
        return 2
    except (ValueError, TypeError, ImportError, MemoryError, RuntimeError) as error:
        print(f"ozaki: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ozaki: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ozaki",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="two .npy files with one matrix each, or: info"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the .npy file to write")
    parser.add_argument(
        "--accuracy",
        type=_accuracy,
        default="fp64",
        metavar="fp64|exact|BITS",
        help="certified as a DGEMM and better (the default), correctly rounded, or integers of so many bits",
    )
    parser.add_argument("--scheme", choices=("auto", "residues", "slices"), default="auto")
    parser.add_argument(
        "--engine",
        choices=("auto", "host", "cublas", "tensorcore"),
        default="auto",
        help="auto is host; cublas copies the matrices to the GPU; no engine changes a bit",
    )
    return parser


def _accuracy(text: str) -> str | int:
    if text in ("fp64", "exact"):
        return text
    if text.isdigit() and 1 <= int(text) <= 2200:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be fp64, exact or a number of bits up to 2200, not {text!r}")


if __name__ == "__main__":
    sys.exit(main())
