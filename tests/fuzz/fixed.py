"""Cases of the fuzz's families with fixed seeds, for tests of one module."""

import warnings

from tests.fuzz import campaign
from tests.fuzz.draw import Draw
from tests.fuzz.tally import one_case, reproducer, seed_of

SEED = 60


def check_family(name: str, cases: int = 60) -> None:
    """Check so many cases of a family, always the same ones."""
    for case in range(cases):
        draw = Draw(seed_of(SEED, name, case))
        with warnings.catch_warnings():  # of the references
            warnings.simplefilter("ignore")
            mismatch = one_case(campaign.CHECKS[name], draw)
        assert mismatch is None, reproducer(campaign.COMMAND, name, SEED, case, draw, mismatch)
