"""How Spark's Java compiles follows `[spark] start`."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.spark import quiet_session
from belvedere.spark.class_archive import LIGHT, OPTIONS


@pytest.mark.parametrize(("settings", "light"), [({}, False), ({"start": "full"}, False), ({"start": "quick"}, True)])
def test_the_options_of_java(settings: dict[str, str], light: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(quiet_session, "local_session", lambda cores, memory, extra: given.append(extra))
    quiet_session.quiet_session(settings)
    (extra,) = given
    assert (LIGHT in extra.get(OPTIONS, "")) == light
    assert "start" not in extra
