"""EMIT and SELECT STREAM: the plans of the paper's and SQLstream's queries, and what is refused."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script
from belvedere.plan.plan_text import plan_text

BASE = """CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);
CREATE STREAM Orders (ticker STRING, amount INT);
CREATE STREAM Orders2 (ticker STRING, amount INT);
"""
SUM = """V := SELECT MAX(wstart) AS wstart, wend, SUM(price) AS price
FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES) GROUP BY wend """


def first_line(text: str) -> str:
    compiled = compile_script(BASE + text)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    return plan_text(compiled.catalog.views["V"].plan).split("\n")[0]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("EMIT STREAM", "emit stream"),
        ("EMIT AFTER WATERMARK", "emit after watermark"),
        ("EMIT STREAM AFTER WATERMARK", "emit stream after watermark"),
        ("EMIT STREAM AFTER DELAY INTERVAL '6' MINUTES", "emit stream after delay 360000000us"),
        (
            "EMIT STREAM AFTER DELAY INTERVAL '6' MINUTES AND AFTER WATERMARK",
            "emit stream after delay 360000000us after watermark",
        ),
    ],
)
def test_emit(clause: str, expected: str) -> None:
    assert first_line(SUM + clause) == expected


def test_a_changelog_has_three_more_columns() -> None:
    view = compile_script(BASE + SUM + "EMIT STREAM").catalog.views["V"]
    assert [c.name for c in view.schema.visible] == ["wstart", "wend", "price", "undo", "ptime", "ver"]


def test_one_end_of_a_window_gives_the_other() -> None:
    text = SUM.replace("MAX(wstart) AS wstart", "wstart")
    plan = plan_text(compile_script(BASE + text).catalog.views["V"].plan)
    assert "MAX(tumble.wstart)" in plan


def test_flink_names_the_columns_otherwise() -> None:
    window = "TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))"
    assert compile_script(f"{BASE}V := SELECT window_end, sum(price) AS s FROM {window} GROUP BY window_end").ok


def test_streams_come_in_the_order_of_their_rowtime() -> None:
    assert first_line("V := SELECT STREAM * FROM Orders WHERE ticker = 'ORCL'") == "in order of rowtime"
    assert first_line("V := SELECT STREAM item FROM Bid") == "in order of rowtime"
    assert first_line("V := SELECT STREAM bidtime, item FROM Bid") == "in order of bidtime"
    union = "V := SELECT STREAM ticker FROM Orders UNION ALL SELECT STREAM ticker FROM Orders2"
    assert first_line(union) == "in order of rowtime"
    sort = "V := SELECT STREAM bidtime AS ROWTIME, price FROM Bid ORDER BY bidtime WITHIN INTERVAL '2' SECOND"
    assert first_line(sort) == "in order of ROWTIME within 2000000us"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT item, count(*) AS n FROM Bid GROUP BY item EMIT AFTER WATERMARK", "B5013"),
        ("SELECT STREAM amount, rowtime - (rowtime - TIMESTAMP'2020-01-01') AS rowtime FROM Orders", "B5019"),
        ("SELECT STREAM amount AS rowtime FROM Orders", "B5018"),
        ("SELECT STREAM ticker, count(*) AS n FROM Orders GROUP BY ticker", "B5011"),
        ("SELECT STREAM ticker FROM Orders UNION SELECT STREAM ticker FROM Orders2", "B5015"),
        ("SELECT STREAM ticker FROM Orders ORDER BY ticker", "B5016"),
        ("SELECT item FROM Bid WHERE price IN (SELECT price FROM Bid EMIT STREAM)", "B5010"),
    ],
)
def test_refusals(text: str, code: str) -> None:
    assert [d.code for d in compile_script(f"{BASE}V := {text}").diagnostics if d.severity == "error"] == [code]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (
            "SELECT wend, sum(price) AS s FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => "
            "INTERVAL '1' HOUR) GROUP BY wstart",
            True,
        ),
        ("SELECT wstart, sum(price) AS s FROM W GROUP BY wend", True),
        ("SELECT x.wstart, sum(x.price) AS s FROM W x JOIN W y ON x.item = y.item GROUP BY y.wend", False),
        ("SELECT wstart, count(*) AS n FROM (SELECT item AS wstart, item AS wend FROM Bid) GROUP BY wend", False),
        (
            "SELECT wend, count(*) AS n FROM Session(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), key => "
            "DESCRIPTOR(item), gap => INTERVAL '1' HOUR) GROUP BY wstart",
            False,
        ),
        (
            "SELECT m.s, m.e FROM (SELECT wstart AS s, wend AS e, count(*) AS n FROM W GROUP BY wend) m GROUP BY m.e",
            True,
        ),
    ],
)
def test_only_real_windows_tell_their_other_end(text: str, accepted: bool) -> None:
    windows = (
        "W := SELECT * FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '1' HOUR);\n"
    )
    found = compile_script(f"{BASE}{windows}V := {text}")
    assert found.ok == accepted, [d.message for d in found.diagnostics]
    if not accepted:
        assert "B3030" in [d.code for d in found.diagnostics]
