"""How Spark's Java compiles follows `[spark] start`."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.spark.jvm import quiet_session
from belvedere.spark.jvm.class_archive import LATER, LIGHT, OPTIONS


@pytest.mark.parametrize(
    ("settings", "options"), [({}, LATER), ({"start": "full"}, LATER), ({"start": "quick"}, LIGHT)]
)
def test_the_options_of_java(settings: dict[str, str], options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(quiet_session, "local_session", lambda cores, memory, extra: given.append(extra))
    quiet_session.quiet_session(settings)
    (extra,) = given
    assert extra[OPTIONS].startswith(options)
    assert "start" not in extra
