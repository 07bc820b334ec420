"""B5033: what hears of windows that are still open."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script

BASE = """
CREATE STREAM _Bid (at TIMESTAMP, price INT, item STRING, WATERMARK FOR at);
CREATE STREAM _Plain (at TIMESTAMP, price INT);
"""
TUMBLE = "Tumble(data => TABLE(_Bid), timecol => DESCRIPTOR(at), dur => INTERVAL '10' MINUTES)"
SUMS = f"Sums := SELECT wend, sum(price) AS p FROM {TUMBLE} GROUP BY wend"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{SUMS}; CREATE SUBSCRIPTION S ON ADD AS SELECT * FROM Sums WHERE p > 3;", ["`S` observes"]),
        (f"{SUMS}; CREATE SUBSCRIPTION S ON DELETE AS SELECT * FROM Sums;", ["`S` observes"]),
        (f"{SUMS}; CREATE SUBSCRIPTION S ON CHANGE AS SELECT * FROM Sums;", []),
        (f"{SUMS} EMIT AFTER WATERMARK; CREATE SUBSCRIPTION S ON ADD AS SELECT * FROM Sums;", []),
        (f"{SUMS}; EXPORT Sums TO print.Sums;", ["export of `Sums`"]),
        (f"{SUMS} EMIT STREAM AFTER WATERMARK; EXPORT Sums TO print.Sums;", []),
        ("CREATE SUBSCRIPTION S ON ADD AS SELECT item, sum(price) AS p FROM _Bid GROUP BY item;", []),
        ("CREATE SUBSCRIPTION S ON ADD AS SELECT * FROM _Bid WHERE price > 3;", []),
        (
            "CREATE SUBSCRIPTION S ON ADD AS SELECT date_trunc('HOUR', at) AS h, count(*) AS n FROM _Bid GROUP BY h;",
            ["`S` observes"],
        ),
        (
            "CREATE SUBSCRIPTION S ON ADD AS SELECT date_trunc('HOUR', at) AS h, count(*) AS n FROM _Plain GROUP BY h;",
            [],
        ),
    ],
)
def test_windows_that_grow_are_told(text: str, said: list[str]) -> None:
    compiled = compile_script(BASE + text)
    assert compiled.ok, compiled.diagnostics
    found = [d for d in compiled.diagnostics if d.code == "B5033"]
    assert len(found) == len(said)
    assert all(s in d.message and "EMIT AFTER WATERMARK" in (d.hint or "") for s, d in zip(said, found, strict=True))
