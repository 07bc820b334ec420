"""Subscriptions with arguments: what they stand for, and what is refused."""

from __future__ import annotations

import pytest

from belvedere.api.reads.entities import model_of
from belvedere.compiler import compile_script
from belvedere.syntax.fmt.script_layout import format_script

BASE = """CREATE STREAM T (a INT, b STRING, t TIMESTAMP) KEEP 1 DAY;
CREATE TABLE U (id INT, k INT, v DOUBLE, PRIMARY KEY (id));
"""
TAKEN = {
    "N(i INT) := SUBSCRIBE SELECT a, b FROM T WHERE a > :i AND b <> 'x'": ["a", "b"],
    "N(i INT NOT NULL) := SUBSCRIBE SELECT * FROM T WHERE a = :i OR a + 1 = :i": ["a", "b", "t"],
    "N(i INT, s STRING = 'x') := STREAM ON ADD AS SELECT b FROM T WHERE (a = :i) AND b = :s": ["b"],
    "CREATE SUBSCRIPTION N(i INT) ON DELETE AS SELECT x.v, y.b FROM U x JOIN T y ON y.a = x.k WHERE x.id = :i AND y.a "
    "<> :i": ["v", "b"],
    "CREATE SUBSCRIPTION N(i INT) ON CHANGE AS SELECT u.k AS key, v FROM U u WHERE u.k = :i": ["key", "v"],
}  # fmt: skip


@pytest.mark.parametrize("text", TAKEN)
def test_the_arguments_choose_among_events(text: str) -> None:
    compiled = compile_script(BASE + text)
    assert [d.code for d in compiled.diagnostics if d.severity == "error"] == []
    model = model_of(compiled.catalog)
    (template,) = model.templates.values()
    old = ["_old"] if "CHANGE" in text else []
    assert list(template.columns) == [*TAKEN[text], "_op", "_event_time", "_seq", *old]
    assert list(template.parameters)[-1] == "after"
    assert (template.field, template.type_name, model.omitted) == ("n", "N", ())
    assert {e.name: e.field for e in model.entities.values()} == {"T": "t", "U": "u", "N": ""}
    assert format_script(format_script(BASE + text)) == format_script(BASE + text)


def test_they_are_one_with_the_plain_form() -> None:
    one, other = (compile_script(BASE + text).catalog for text in (
        "N(i INT) := SUBSCRIBE SELECT a, b FROM T WHERE b <> 'x' AND a = :i",
        "CREATE SUBSCRIPTION N ON ADD AS SELECT a, b FROM T WHERE b <> 'x'",
    ))  # fmt: skip
    assert str(one.views["N~query"].plan) == str(other.views["N~query"].plan)
    assert one.subscriptions["N"].schema == other.subscriptions["N"].schema


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("N(i INT) := SUBSCRIBE SELECT k, sum(v) AS v FROM U WHERE k = :i GROUP BY k", "k = :i", "as a view"),
        ("N(i INT) := SUBSCRIBE SELECT max(v) AS v FROM U WHERE k = :i", "k = :i", "as a view"),
        ("N(i INT) := SUBSCRIBE SELECT v FROM U WHERE k = :i ORDER BY v LIMIT 3", "k = :i", "as a view"),
        (
            "N(i INT) := SUBSCRIBE SELECT v, row_number() OVER (ORDER BY v) AS n FROM U WHERE k = :i",
            "k = :i",
            "as a view",
        ),
        ("N(i INT) := SUBSCRIBE SELECT a + :i AS x FROM T", ":i", "as a view"),
        ("N(i INT) := SUBSCRIBE SELECT v FROM U WHERE v > (SELECT max(a) FROM T WHERE a < :i)", None, "as a view"),
        ("N(i INT) := SUBSCRIBE SELECT a FROM T WHERE a = :i UNION ALL SELECT id FROM U", None, "as a view"),
        ("CREATE SUBSCRIPTION N(i INT) ON CHANGE AS SELECT v FROM U WHERE k = :i", "k", "select `k`"),
        ("N(after BIGINT) := SUBSCRIBE SELECT a FROM T WHERE a = :after", "after BIGINT", "another name"),
        ("N(i INT, j INT) := SUBSCRIBE SELECT a FROM T WHERE a = :i", "j INT", "WHERE column = :j"),
    ],
)
def test_what_is_no_filter_of_events(text: str, place: str | None, hint: str) -> None:
    (found,) = [d for d in compile_script(BASE + text).diagnostics if d.severity == "error"]
    assert found.code == "B4037"
    assert found.span is not None
    assert place in (None, (BASE + text)[found.span.start : found.span.end])
    assert hint in (found.hint or "")


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("N(i DOUBLE) := SUBSCRIBE SELECT * FROM U WHERE v > :i", True),
        ("N(i INT) := SUBSCRIBE SELECT v FROM U WHERE k = :i", True),
        ("N(i INT) := SUBSCRIBE SELECT * FROM U WHERE id = :i", False),
        ("N(i INT) := SUBSCRIBE SELECT b FROM T WHERE a = :i", False),
        ("V := SELECT a, count(*) AS n FROM T GROUP BY a;\nN(i INT) := SUBSCRIBE SELECT * FROM V WHERE a = :i", False),
        ("V := SELECT a, count(*) AS n FROM T GROUP BY a;\nN(i INT) := SUBSCRIBE SELECT * FROM V WHERE n > :i", True),
    ],
)
def test_columns_that_may_change_are_told(text: str, reported: bool) -> None:
    assert ("B4038" in [d.code for d in compile_script(BASE + text).diagnostics]) is reported
