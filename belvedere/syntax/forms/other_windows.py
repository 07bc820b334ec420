"""Hints for window clauses of other systems: Feldera, RisingWave, ksqlDB, CQL and Databricks.

In: the words of a statement that could not be parsed. Out: the equivalent in this language, as a hint for the error at
the first unexpected word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_TUMBLING = "take TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR) in FROM, and GROUP BY window_start, window_end"
_GRACE = "a grace period is a delay of the stream: WATERMARK FOR ts AS ts - INTERVAL '10' MINUTES"
_SESSION = "take SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTES) in FROM"
_DELAY = "write WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS behind the columns"

OTHER_WINDOWS: Mapping[str, str] = {
    r"\bLATENESS\b": f"{_DELAY}: rows below it are late",
    r"\bEMIT_FINAL\b": "end the query with EMIT AFTER WATERMARK",
    r"^CREATE SOURCE\b": "write CREATE STREAM t (...), and say its connector in belvedere.toml under [sources]",
    r"\bSESSION WITH GAP\b": _SESSION,
    r"\bWATERMARK \S+ DELAY OF\b": _DELAY,
    r"\bWINDOW TUMBLING \(": f"{_TUMBLING}; {_GRACE}",
    r"\bWINDOW HOPPING \(": (
        f"take HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '30' SECONDS) in FROM; {_GRACE}"
    ),
    r"\bWINDOW SESSION \(": f"{_SESSION}; {_GRACE}",
    r"\b[IDR]STREAM \(": "write SELECT STREAM for rows that only arrive, or EMIT STREAM for a changelog",
    r"\[ (RANGE|ROWS|NOW|UNBOUNDED|PARTITION BY)\b": (
        "write FROM t WINDOW (sliding, time(600)) AS t for RANGE 10 MINUTE, and (sliding, count(10)) for ROWS 10"
    ),
}
"""Hints by a pattern of the statement's words, in upper case and separated by one space."""


def other_window(words: Sequence[str]) -> str | None:
    """Return the equivalent of a window clause of another system among the words; None if there is none."""
    text = " ".join(words).upper()
    return next((hint for pattern, hint in OTHER_WINDOWS.items() if re.search(pattern, text)), None)
