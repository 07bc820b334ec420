"""The server of the tests of Postgres, for the walks too."""

from __future__ import annotations

from tests.postgres.conftest import logical_server

__all__ = ["logical_server"]
