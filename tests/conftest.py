"""Shared fixtures: the GPU, where there is one, and hypothesis's profile."""

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("ci")


def gpu_missing() -> str | None:
    """Why no GPU test can run here, or None."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"no GPU: {type(error).__name__}: {error}"
    return None


def pytest_collection_modifyitems(items):
    marked = [item for item in items if "gpu" in item.keywords]
    reason = gpu_missing() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
