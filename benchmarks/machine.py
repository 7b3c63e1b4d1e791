"""`python -m benchmarks.machine`: the rates of this GPU, added to those that come with the library."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date

from multiword.engines import _machine

PRODUCTS = ("int8", "fp16", "bf16", "tf32", "fp32", "fp64")


def main() -> None:
    """Measure, print and save."""
    found = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.machine",
        "bandwidth": _machine.measure_bandwidth("cublas"),
        "rates": {p: asdict(_machine.measure_rates("cublas", p)) for p in PRODUCTS},
    }
    name = _machine.device_name("cublas")
    known = {**_machine.known_machines(), name: found}
    _machine.KNOWN.write_text(json.dumps(known, indent=1) + "\n")
    print(name, json.dumps(found, indent=1), sep="\n")


if __name__ == "__main__":
    main()
