"""`python -m tests.golden` writes the fingerprints that every engine must reproduce.

The exact cases are also checked against Python's integers by test_dgemm; the file is written
once and changes only when the definition does.
"""

import json
from pathlib import Path

from ozaki import accurate_dgemm, fingerprint
from tests.matrices import GOLDEN, matrices

FILE = Path(__file__).with_name("golden.json")


def load() -> dict[str, str]:
    return json.loads(FILE.read_text())


if __name__ == "__main__":
    results = {}
    for name, (kind, shape, accuracy) in GOLDEN.items():
        a, b = matrices(kind, *shape)
        results[name] = fingerprint(accurate_dgemm(a, b, accuracy=accuracy))
    FILE.write_text(json.dumps(results, indent=1) + "\n")
