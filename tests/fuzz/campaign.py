"""Public functions against exact references, on the CPU.

python -m tests.fuzz.campaign [--minutes M] [--seed S] [--cases C] [--only NAME [--case N]]
"""

import argparse
import sys
import warnings

import ozaki
from tests.fuzz import (
    exact_bounds,
    exact_int8,
    exact_linalg,
    exact_matmul,
    exact_products,
    exact_spread,
    exact_state,
    exact_sums,
    exact_words,
    shared,
    situations,
)
from tests.fuzz.draw import Draw
from tests.fuzz.tally import one_case, reproducer, run, seed_of

_MODULES = (
    *(exact_products, exact_matmul, exact_sums, exact_spread, exact_state, exact_words, exact_bounds),
    *(exact_int8, exact_linalg, shared, situations),
)
CHECKS = {name: check for module in _MODULES for name, check in module.CHECKS.items()}
COMMAND = "tests.fuzz.campaign"


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--cases", type=int, help="of each function at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help=f"one of: {'; '.join(CHECKS)}")
    parser.add_argument("--case", type=int, help="repeat this case of --only alone")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=ozaki.CostWarning)  # the data are hard on purpose
    if options.only and options.only not in CHECKS:
        parser.error(f"unknown function {options.only!r}; known are {'; '.join(CHECKS)}")
    if options.case is not None:
        if not options.only:
            parser.error("--case needs --only")
        draw = Draw(seed_of(options.seed, options.only, options.case))
        mismatch = one_case(CHECKS[options.only], draw)
        if mismatch is None:
            print("\n".join(draw.notes), "\nno mismatch")
            return 0
        print(reproducer(COMMAND, options.only, options.seed, options.case, draw, mismatch))
        return 1
    checks = {options.only: CHECKS[options.only]} if options.only else CHECKS
    tally = run(
        *(checks, 60 * options.minutes, options.seed, COMMAND),
        *(lambda text: print(text, flush=True), options.cases),
    )
    print(f"\n{tally.table()}")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
