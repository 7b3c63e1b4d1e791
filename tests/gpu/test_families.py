"""Calls that both sides can make have the bits of the CPU on a GPU, as in the fuzz of devices."""

import pytest

from tests.fuzz import devices
from tests.fuzz.device_functions import OF_NUMBERS_AND_ROWS
from tests.fuzz.shared import SHARED
from tests.fuzz.solvers import SOLVERS

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", SHARED | SOLVERS | OF_NUMBERS_AND_ROWS)
def test_some_cases_of_every_family(cupy, name):
    device = devices.Device(dry=False)
    for case in range(6):
        _, mismatch = devices.one(name, case, 11, device)
        assert mismatch is None, mismatch
