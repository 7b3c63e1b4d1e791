"""`python -m benchmarks.machine`: the rates of this GPU, added to those that come with the library."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date

from multiword.engines import machine

PRODUCTS = ("int8", "fp16", "bf16", "tf32", "fp32", "fp64")


def main() -> None:
    """Measure, print and save."""
    found = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.machine",
        "bandwidth": machine.measure_bandwidth("cublas"),
        "rates": {p: asdict(machine.measure_rates("cublas", p)) for p in PRODUCTS},
    }
    name = machine.device_name("cublas")
    known = {**machine.known_machines(), name: found}
    machine.KNOWN.write_text(json.dumps(known, indent=1) + "\n")
    print(name, json.dumps(found, indent=1), sep="\n")


if __name__ == "__main__":
    main()
