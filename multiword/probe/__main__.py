"""`python -m multiword.probe`: how this machine's tensor cores, and the models', add."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from multiword.engines.libcublas import version
from multiword.engines.machine import device_name
from multiword.probe.products import WORDS
from multiword.probe.report import default_names, named_engine, print_report, save_report, survey


def main(arguments: list[str] | None = None) -> int:
    """Probe, print the table, save it as JSON on request; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m multiword.probe", description="Find out how matrix engines add, from chosen products."
    )
    parser.add_argument(
        "engines",
        nargs="*",
        metavar="ENGINE",
        help="cublas, or a modelled generation such as V100, with /fp16 for half-precision accumulation; "
        "by default the GPU, if there is one, and the models",
    )
    parser.add_argument("--word", action="append", choices=WORDS, help="a word format; by default all")
    parser.add_argument("--json", metavar="FILE", type=Path, help="save the findings here as well")
    options = parser.parse_args(arguments)
    names = options.engines or default_names()
    try:
        engines = [named_engine(name) for name in names]
        if options.json and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
            raise ValueError(f"{options.json} is no file that can be written")
        findings, notes = survey(engines, options.word or WORDS, _say)
        print_report(findings, notes)
        if options.json:
            command = " ".join(["python -m multiword.probe", *names])
            on_gpu = any(engine.name == "cublas" for engine in engines)
            gpu = {"device": device_name("cublas"), "cublas": version()} if on_gpu else {}
            save_report(options.json, findings, notes, command=command, **gpu)
    except (ValueError, ImportError, RuntimeError, OSError) as error:
        print(f"multiword.probe: {error}", file=sys.stderr)
        return 2
    return 0 if findings else 1


def _say(probed: str) -> None:
    print(f"multiword.probe: probing {probed} …", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
