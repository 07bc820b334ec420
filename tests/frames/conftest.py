"""The stores of tests with frames."""

from tests.event_time.conftest import module_store

__all__ = ["module_store"]
