"""Where the data beside the checkout lies, and how many examples a property test draws."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SHARED = Path(__file__).resolve().parents[2] / "shared"

QUICK = settings(deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", QUICK)
settings.register_profile("thorough", QUICK, max_examples=5000)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def shared():
    """The data folder beside the checkout; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("needs the data folder beside the checkout")
    return SHARED
