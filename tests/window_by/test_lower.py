"""A WINDOW BY query as a plan node: its columns, its key, how it splits, and what it refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.lang.select.standard_sql import expand
from belvedere.lang.statements.script_lowering import finish_plan
from belvedere.pipeline.choose import maintain, without
from belvedere.pipeline.explain import explain
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.window_explanation import search_of
from belvedere.schema import Column, Schema
from belvedere.sqlpp.lower import lower_window_query
from belvedere.sqlpp.spark_text.sql_text import Open, constant_of

STATION, DATE = Column("station", pa.string(), False), Column("date", pa.date32(), False)
GHCN = Scan("Ghcn~1", Schema((STATION, DATE, Column("val", pa.int64())), ("station", "date")))
OTHER = Scan("Other~1", Schema((Column("id", pa.int64(), False),), ("id",)))
SOURCES = {"Ghcn": GHCN, "Other": OTHER}
HEAD = "FROM Ghcn AS g WINDOW BY w PARTITION BY g.station "
FRAME = "ORDER BY g.date TYPE SLIDING START AS s END AS e WHEN e.val > s.val "
LISTED = "FROM Ghcn AS g WHERE g.val IN (FROM Other AS o SELECT VALUE o.id) WINDOW BY w PARTITION BY g.station "
SELECT = "SELECT s.station AS st, ARRAY_AVG(w[*].val) AS a, w[*].val AS vs"


def lowered(text: str) -> Node:
    return finish_plan(lower_window_query(text, SOURCES)[0])


def windows_of(plan: Node) -> list[PredicateWindow]:
    return [n for n in plan.walk() if isinstance(n, PredicateWindow)]


def test_columns_and_key() -> None:
    plan = lowered(HEAD + FRAME + SELECT)
    assert [(c.name, c.type) for c in plan.schema.visible] == [
        ("st", pa.string()),
        ("a", pa.float64()),
        ("vs", pa.list_(pa.int64())),
    ]
    assert [plan.schema[k].type for k in plan.schema.key or ()] == [pa.string(), pa.date32()]
    assert {n for n in plan.walk() if isinstance(n, Scan)} == {GHCN}


@pytest.mark.parametrize(
    ("text", "by", "key"),
    [
        (HEAD + FRAME + SELECT, ("station",), None),
        (
            "FROM Ghcn AS g WINDOW BY w PARTITION BY g.station, LOWER(g.station) " + FRAME + SELECT,
            ("station", "LOWER(g.station)"),
            None,
        ),
        (
            "FROM Ghcn AS g LET y = YEAR(g.date) WINDOW BY w PARTITION BY y "
            + FRAME.replace("e.", "e.g.").replace("s.val", "s.g.val")
            + "SELECT s.y",
            ("y",),
            None,
        ),
        (
            "FROM Ghcn AS g WINDOW BY w PARTITION BY g.station, g.val / 2 " + FRAME + SELECT,
            ("station", "g.val / 2"),
            None,
        ),
        (
            "FROM Ghcn AS g WINDOW BY w PARTITION BY YEAR(g.date) ORDER BY g.date TYPE SLIDING START UNBOUNDED END "
            "UNBOUNDED SELECT LEN(w) AS n",
            ("YEAR(g.date)",),
            (pa.int64(),),
        ),
        ("FROM Ghcn AS g WINDOW BY w " + FRAME + SELECT, (), None),
        (
            "FROM Ghcn WINDOW BY w PARTITION BY Ghcn.station " + FRAME.replace("g.", "Ghcn.") + SELECT,
            ("station",),
            None,
        ),
        (
            HEAD + "ORDER BY g.date TYPE SLIDING START UNBOUNDED END UNBOUNDED SELECT LEN(w) AS n",
            ("station",),
            (pa.string(),),
        ),
        (
            "FROM Ghcn AS g WINDOW BY w ORDER BY g.date TYPE SLIDING START UNBOUNDED END UNBOUNDED SELECT LEN(w) AS n",
            (),
            (),
        ),
        ("FROM (" + HEAD + FRAME + SELECT + ") AS q WHERE q.a > 3 SELECT q.st", ("station",), None),
        (HEAD + FRAME + SELECT + " LIMIT 3", ("station",), None),
        (HEAD + FRAME + "SELECT DISTINCT s.station AS st", ("station",), (pa.string(),)),
        (HEAD.replace("g", "other") + FRAME.replace("g.", "other.") + SELECT, ("station",), None),
        (
            "FROM Ghcn AS g GROUP BY g.station WINDOW BY w ORDER BY station TYPE TUMBLING START AS s SELECT s AS st",
            (),
            (pa.string(),),
        ),
    ],
)
def test_how_windows_split(text: str, by: tuple[str, ...], key: tuple[pa.DataType, ...] | None) -> None:
    """By what windows are independent, and what tells rows apart (by default: the key of the row where a window
    starts)."""
    plan = lowered(text)
    (window,) = windows_of(plan)
    assert window.by == by
    types = tuple(plan.schema[k].type for k in plan.schema.key or ())
    assert types == ((pa.string(), pa.date32()) if key is None else key)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + FRAME + "SELECT (FROM Ghcn AS x SELECT VALUE x.val)[0] AS st",
        LISTED + FRAME + SELECT,
        HEAD + FRAME + "SELECT (FROM w AS ghcn LET other = ghcn.val SELECT VALUE other)[0] AS st",
    ],
)
def test_subqueries(text: str) -> None:
    (window,) = windows_of(lowered(text))
    assert window.by == ("station",)


def test_what_is_wrong_points_into_the_script() -> None:
    with pytest.raises(BelvedereError) as raised:
        lower_window_query(HEAD + FRAME + "SELECT g.val", SOURCES, "a.sqrl", 100)
    span = raised.value.diagnostics[0].span
    assert span is not None
    assert (span.file, span.start) == ("a.sqrl", 100 + len(HEAD + FRAME) + len("SELECT "))


SCRIPT = """
CREATE STREAM Ghcn (station STRING, date DATE, val INT);
CREATE TABLE Orders (id INT PRIMARY KEY, items ARRAY<STRUCT<sku: STRING, n: INT>>);
"""


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("V := " + HEAD + FRAME + "SELECT nothing.x;", "B2601"),
        ("V := " + HEAD + FRAME + 'SELECT {"d": e.date - s.date} AS d;', "B3620"),
        ("V := " + HEAD + FRAME + "SELECT MISSING AS d;", "B3044"),
        (
            "V := "
            + HEAD
            + FRAME.replace("e.val > s.val", "UPPER(e.station || s.station) = 'AB'")
            + "SELECT s.val AS v;",
            "B3624",
        ),
        ("Ghcn.v := " + HEAD + FRAME + SELECT + ";", "B5020"),
        ("Q(x INT) := " + HEAD + FRAME + SELECT + ";", "B5020"),
        ("V := FROM Nope AS n WINDOW BY w ORDER BY n.a TYPE TUMBLING START SELECT LEN(w) AS n;", "B2601"),
    ],
)
def test_refused_in_a_script(statement: str, code: str) -> None:
    found = [d for d in compile_script(SCRIPT + statement).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code]
    assert found[0].span is not None


def test_a_table_that_was_refused_is_not_reported_again() -> None:
    script = (
        "CREATE TABLE T (a NOTYPE);\nV := FROM T AS t WINDOW BY w ORDER BY t.a TYPE TUMBLING START SELECT LEN(w) AS n;"
    )
    assert {d.span.start for d in compile_script(script).diagnostics if d.span is not None} < set(
        range(script.index("V"))
    )


def test_nested_tables_and_subscriptions() -> None:
    script = SCRIPT + (
        "Runs := FROM Orders.items AS i WINDOW BY w PARTITION BY i.sku ORDER BY i.n TYPE TUMBLING START AS s SELECT "
        "s.sku AS sku;\n"
        "CREATE SUBSCRIPTION Cold ON ADD AS " + HEAD + FRAME + "SELECT s.station AS st, s.date AS day;"
    )
    compiled = compile_script(script)
    assert [d.message for d in compiled.diagnostics if d.severity == "error"] == []
    assert "Orders.items" in {n.relation for n in compiled.catalog.views["Runs"].plan.walk() if isinstance(n, Scan)}


def test_findings_behind_a_nested_table_are_at_their_places() -> None:
    text = "FROM Ghcn.parts AS p WINDOW BY w ORDER BY p.date TYPE TUMBLING START AS s SELECT s.val AS v, s.nosuch AS n"
    _, found = lower_window_query(text, {"Ghcn.parts": GHCN})
    assert [text[d.span.start : d.span.end] for d in found if d.span is not None] == ["nosuch"]


def test_the_expansion_is_the_query_as_written() -> None:
    catalog = compile_script(SCRIPT + "V := " + HEAD + FRAME + SELECT + ";").catalog
    assert expand(catalog, "V") == "CREATE VIEW V AS\n" + HEAD + FRAME + SELECT


def test_order_by_without_limit_says_nothing_about_a_view() -> None:
    found = compile_script(SCRIPT + "V := " + HEAD + FRAME + SELECT + " ORDER BY st;").diagnostics
    assert [d.code for d in found if d.span is not None and d.span.start > len(SCRIPT)] == ["B3060"]


def test_explain_names_class_and_cost() -> None:
    catalog = compile_script(SCRIPT + "V := " + HEAD + FRAME + SELECT + ";").catalog
    (view,) = [e for e in explain(catalog, maintain(catalog)) if e.name == "V"]
    reason = view.stages[-1].reason
    found = (
        "all windows of the changed station (END of a later start may come before that of an earlier one, at any "
        "distance); "
    )
    assert reason.startswith(found + "windows: sliding")
    assert "END: class c1: descent in a tree of extremes, O(n log n)" in reason


ANY = "!END of a later start may come before that of an earlier one, at any distance"
LABELS = "from the last label whose window ends before it to the first one whose window begins after it"
FAR = "!windows may reach from any row before their labels to any row after them"


@pytest.mark.parametrize(
    ("order", "windows", "part"),
    [
        ("", "SLIDING START AS s WHEN s.val < 3 END NEXT AS n WHEN n.val > 3", "from the last end before it"),
        (
            "",
            "SLIDING START AS s AT sp PREV AS p WHEN p.val > 3 END AT ep WHEN ep - sp >= 19",
            "from the last end before it",
        ),
        ("", "SLIDING START AS s END NEXT AS n WHEN n.day - s.day > duration('P7D')", "from the last end before it"),
        ("", "SLIDING START AS s END AS e WHEN e.val > s.val OR e.val IS NULL", "from the last end before it"),
        ("", "TUMBLING START AS s END AS e WHEN e.val * s.val > 19", "from the last stored start before it"),
        ("", "TUMBLING START AS s WHEN s.val < 3", "from the last stored start before it"),
        ("", "SLIDING START AS s END AS e WHEN e.val > s.val", ANY),
        ("", "SLIDING START AS s END AS e WHEN s.val < 3 AND e.val > 3", ANY),
        ("", "SLIDING START AS s AT sp END AS e AT ep WHEN e.val * s.val > (ep - sp) * 2", ANY),
        (
            "",
            "SLIDING START AS s AT sp END AS e AT ep WHEN e.val * s.val > ep * 2",
            "!positions count from the partition's first row",
        ),
        ("", "SLIDING START AS s AT sp END AT ep WHEN ep = 19", "!positions count from the partition's first row"),
        ("", "TUMBLING START AS s AT sp WHEN sp % 5 = 0", "!positions count from the partition's first row"),
        ("", "SLIDING START AS s END UNBOUNDED", "!END UNBOUNDED: all windows have the partition's last row"),
        (
            "",
            "SLIDING START UNBOUNDED END NEXT AS s WHEN s.val < 3",
            "!START UNBOUNDED: the window has the partition's rows",
        ),
        ("", "TUMBLING START AS s PREV AS p WHEN p.val < 3", "from the last stored start before it"),
        ("", "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 1 END AT ep WHEN ep - lp = 1", LABELS),
        (
            "",
            "SLIDING LABEL AS s START AS f WHEN s.day - f.day < duration('P7D') END AS e WHEN e.val > 3 OR e.day > "
            "s.day",
            LABELS,
        ),
        ("", "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 9 ONLY END AT ep WHEN lp - ep = 5", LABELS),
        (
            "",
            "SLIDING LABEL AS s AT lp START UNBOUNDED END AT ep WHEN ep = lp",
            "!START UNBOUNDED: the window has the partition's rows",
        ),
        ("", "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 9 END AT ep WHEN lp - ep = 5", FAR),
        ("", "SLIDING LABEL AS s START UNBOUNDED END AS e WHEN e.val > 3", "!START UNBOUNDED"),
        ("", "SLIDING LABEL AS s START AS f WHEN f.val > 3 END AS e WHEN e.day > s.day", FAR),
        (
            "",
            "TUMBLING LABEL AS s AT lp START AT sp WHEN lp - sp = 1 END AT ep WHEN ep - lp = 1",
            "!TUMBLING windows with LABEL",
        ),
        (" DESC", "SLIDING START AS s END AS e WHEN e.val > 3", "from the last end before it"),
        (
            " DESC",
            "SLIDING START AS s END NEXT AS n WHEN s.day - n.day > duration('P7D')",
            "from the last end before it",
        ),
        (" DESC", "SLIDING START AS s END NEXT AS n WHEN n.day - s.day > duration('P7D')", ANY),
        (" NULLS LAST", "SLIDING START AS s END AS e WHEN e.val > 3", "from the last end before it"),
    ],
)
def test_explain_says_what_a_change_reaches(order: str, windows: str, part: str) -> None:
    """Or why it may reach all windows (!)."""
    table = "CREATE TABLE Ghcn (station STRING, day DATE NOT NULL, val INT, PRIMARY KEY (station, day));\n"
    text = (
        f"V := FROM Ghcn AS g WINDOW BY w PARTITION BY g.station ORDER BY g.day{order} TYPE {windows} SELECT s.day,"
        " LEN(w) AS n;"
    )
    compiled = compile_script(table + text)
    assert [d.message for d in compiled.diagnostics if d.severity == "error"] == []
    (view,) = [e for e in explain(compiled.catalog, maintain(compiled.catalog)) if e.name == "V"]
    requested = f"of the changed station the windows around the change: {part}"
    if part.startswith("!"):
        requested = f"all windows of the changed station ({part[1:]}"
    assert view.stages[-1].reason.startswith(requested)


@pytest.mark.parametrize("key", ["MISSING", "(FROM Other AS o SELECT VALUE o.id)"])
def test_explain_has_words_for_what_sql_has_not(key: str) -> None:
    (window,) = windows_of(lowered(HEAD.replace("g.station", f"g.station, {key}") + FRAME + SELECT))
    assert "partitioned by" in search_of(window)


STREAM = (
    "CREATE STREAM _Raw (k STRING, ts TIMESTAMP NOT NULL, val INT, WATERMARK FOR ts AS ts - INTERVAL 10 SECONDS){};\n"
)
TIMED = "V := FROM _Raw AS g WINDOW BY w PARTITION BY g.k ORDER BY g.ts{} TYPE {} SELECT s.ts AS ts;"


@pytest.mark.parametrize(
    ("order", "windows", "leave"),
    [
        ("", "SLIDING START AS s END NEXT AS n WHEN n.val > 3", True),
        (", g.val", "TUMBLING START AS s ONLY END AS e WHEN e.val > s.val", True),
        ("", "SLIDING START AS s AT sp END AT ep WHEN ep - sp = 19", True),
        ("", "SLIDING START AS s AT sp END AT ep WHEN ep = 19", False),
        ("", "SLIDING START AS s AT sp WHEN sp > 1 END AT ep WHEN ep - sp = 19", False),
        ("", "SLIDING START AS s PREV AS p WHEN p.val > 3 END AS e WHEN e.val > 3", True),
        ("", "TUMBLING START AS s PREV AS p WHEN p.val > 3 END AS e WHEN e.val > 3", False),
        ("", "TUMBLING START AS s PREV AS p WHEN s.ts - p.ts > duration('PT5M')", True),
        ("", "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 1 END AT ep WHEN ep - lp = 1", True),
        ("", "SLIDING LABEL AS s START AS f WHEN s.ts - f.ts <= duration('-PT5M') END AS e WHEN e.ts >= s.ts", False),
        ("", "SLIDING LABEL AS s AT lp START UNBOUNDED END AT ep WHEN ep = lp", False),
        (" DESC", "SLIDING START AS s END AS e WHEN e.val > 3", False),
        ("", "SLIDING START AS s END UNBOUNDED", False),
        ("", "SLIDING LABEL AS s START UNBOUNDED END AS e WHEN e.val > 3", False),
    ],
)
def test_rows_leave_once_their_windows_are_final(order: str, windows: str, leave: bool) -> None:
    """Only where no later row can change a window that has ended: the private stream's rows are kept for that alone."""
    catalog = compile_script(STREAM.format("") + TIMED.format(order, windows)).catalog
    (view,) = [e for e in explain(catalog, maintain(catalog)) if e.name == "V"]
    assert (view.stages[-1].rule == "open windows") is leave
    said = "rows leave once all their windows end below the watermark of ts, which follows _Raw.ts"
    assert any(s.bound == said for s in view.state) is leave
    looks_back = leave and ("PREV" in windows or "LABEL" in windows)
    assert (
        any(s.bound == "a row for each k: the start of its windows that are not final" for s in view.state)
        is looks_back
    )
    late = compile_script(STREAM.format(" LATE KEEP") + TIMED.format(order, windows)).catalog
    public = compile_script((STREAM.format("") + TIMED.format(order, windows)).replace("_Raw", "Raw")).catalog
    plans = (maintain(late), maintain(public), maintain(catalog, without("open windows")))
    assert not [s for p in plans for s in p.stages if s.rule == "open windows"]


def test_emit_may_follow_the_clause() -> None:
    text = SCRIPT + "V := " + HEAD + FRAME + SELECT + " EMIT STREAM;"
    compiled = compile_script(text)
    assert [d for d in compiled.diagnostics if d.severity == "error"] == []
    assert [c.name for c in compiled.catalog.views["V"].schema.visible] == ["st", "a", "vs", "undo", "ptime", "ver"]
    assert expand(compiled.catalog, "V").endswith(SELECT + " EMIT STREAM")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("((TRUE) OR CAST(NULL AS BOOLEAN))", True),
        ("((NULL > 5L) AND FALSE)", False),
        ("CAST(NULL AS BOOLEAN)", None),
        ("(- 5L)", -5),
        ("(9007199254740992L * 1024L)", 2**63),
        ("0.5D", 0.5),
        ("(0.1D + 0.2D)", Open),
        ("coalesce(NULL, 5L)", Open),
    ],
)
def test_what_is_known_of_constants_before_the_run(text: str, value: object) -> None:
    assert constant_of(text) is value if value is Open else constant_of(text) == value
