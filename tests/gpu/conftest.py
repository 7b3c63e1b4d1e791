"""CuPy, as a fixture."""

import pytest


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")
