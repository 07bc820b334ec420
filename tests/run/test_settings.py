"""The time between two looks at the sources, as the project file writes it."""

from __future__ import annotations

import pytest

from belvedere.errors import BelvedereError
from belvedere.project.setting_rules import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50 ms", 0.05), ("500ms", 0.5), ("250 milliseconds", 0.25), ("1 s", 1), ("1.5 seconds", 1.5), ("2 Minutes", 120)],
)
def test_triggers(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "fast", "10", "-1 s", "1 fortnight"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(BelvedereError, match="B9111"):
        seconds_of(text)
