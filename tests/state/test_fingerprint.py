"""A fingerprint is stored as one text, and read again as it was."""

from __future__ import annotations

import pytest

from belvedere.state.fingerprint import DIGEST, UNKNOWN, Fingerprint

ROWS, PATHS = "a" * DIGEST, "b" * DIGEST


@pytest.mark.parametrize(
    ("fingerprint", "text"),
    [
        (Fingerprint(ROWS, PATHS), f"{ROWS}.{PATHS}."),
        (Fingerprint(ROWS, PATHS, "at,window_end"), f"{ROWS}.{PATHS}.at,window_end"),
        (Fingerprint(ROWS, PATHS, "a.b"), f"{ROWS}.{PATHS}.a.b"),
        (Fingerprint(ROWS, PATHS, "a."), f"{ROWS}.{PATHS}.a."),
        (Fingerprint("V", "missed"), "V.missed."),
        (Fingerprint("V.by region", "former"), "V.by region.former."),
        (UNKNOWN, ".."),
    ],
    ids=["rows", "leaving", "dotted", "ending in a dot", "missed", "dotted name", "unknown"],
)
def test_the_text_is_read_as_it_was(fingerprint: Fingerprint, text: str) -> None:
    assert fingerprint.text == text
    assert Fingerprint.of_text(text) == fingerprint


def test_no_text_is_of_no_rows() -> None:
    assert Fingerprint.of_text("") == UNKNOWN
