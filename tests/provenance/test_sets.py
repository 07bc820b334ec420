"""Both databases find matching rows as sets, including NULLs; literals that are never equal are recognized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlglot import exp, parse_one

from belvedere import Workbench
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Item, Join, JoinKind, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.provenance.constants import is_impossible
from belvedere.schema import Schema
from belvedere.store import open_reader
from belvedere.store.dialects.sqlite.sqlite_reader import SqliteReader
from belvedere.store.protocol import Reader
from belvedere.store.read.computed_views import text_at_read
from belvedere.store.read.shared_sets import Sets, SharedSet
from belvedere.store.stored_table import StoredTable

SCRIPT = """
CREATE TABLE A (k INT, s STRING, n INT, PRIMARY KEY (k));
CREATE TABLE B (id INT, t STRING, m BIGINT, PRIMARY KEY (id));
"""
A = [(1, None, 1), (2, "é", None), (3, "a", 2), (4, None, None), (5, "b", 3)]
B = [(1, None, 1), (2, "é", None), (3, "a", 3), (4, "", 0)]
CONDITIONS: dict[str, Any] = {
    "s <=> t": lambda a, b: a[1] == b[1],
    "s = t": lambda a, b: a[1] is not None and a[1] == b[1],
    "s <=> t AND n <=> m": lambda a, b: a[1:] == b[1:],
    "k <=> id AND n = m": lambda a, b: a[0] == b[0] and a[2] is not None and a[2] == b[2],
    "s <=> t AND n < m": lambda a, b: a[1] == b[1] and None not in (a[2], b[2]) and a[2] < b[2],
}


@pytest.mark.usefixtures("each_store")
def test_rows_that_match_are_found_as_a_set(executor: Any) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    wb.insert("A", [dict(zip("ksn", r, strict=True)) for r in A])
    wb.insert("B", [dict(zip(("id", "t", "m"), r, strict=True)) for r in B])
    wb.step()
    left, right = (Scan(i, wb.catalog.schema_of(i)) for i in ("A", "B"))
    others = Project(right, tuple(item_of(right.schema[n]) for n in ("id", "t", "m")))
    url = wb.store.url
    inside = wb.store.reader()
    _check_all(inside, left, others)
    inside.close()
    wb.close()
    outside = open_reader(url)
    _check_all(outside, left, others)
    outside.close()


def _check_all(reader: Reader, left: Scan, others: Project) -> None:
    for text, holds in CONDITIONS.items():
        want = [[a[0] for a in A if any(holds(a, b) for b in B) is there] for there in (True, False)]
        joins = [Join(left, others, kind, parse_one(text, dialect="spark")) for kind in (JoinKind.SEMI, JoinKind.ANTI)]
        plans = [Project(j, (Item("k", column("k"), left.schema["k"].type, nullable=False),)) for j in joins]
        for asked in (plans[:1], plans[1:], plans):
            sets = Sets()
            queries, kept = sets.shared([text_at_read(p, reader.dialect, sets) for p in asked])
            assert "DISTINCT FROM" not in queries[0] or "<" in text, "Postgres would compare each row with each"
            assert len(kept) == (reader.dialect == "sqlite" and len(asked) > 1 and "<" not in text.replace("<=>", ""))
            tables = [StoredTable("", Schema(p.schema.columns), query=q) for p, q in zip(asked, queries, strict=True)]
            for _ in range(2):  # a set ends with its transaction
                _, found = reader.rows_together(tables, kept)
                assert [sorted(f["k"].to_pylist()) for f in found] == [want[plans.index(p)] for p in asked], text


def test_a_set_that_only_another_one_reads_stays_a_part_of_it() -> None:
    sets = Sets()
    inner = sets.named("SELECT a FROM t", ["INTEGER"])
    outer = sets.named(f"SELECT b FROM u WHERE a IN {inner}", ["TEXT"])
    once = sets.named("SELECT 1", [""])
    sets.named("SELECT 2", [""])  # of a statement that the database was not asked
    statements = [f"b IN {outer}", f"b IN {outer} AND 1 IN {once}"]
    texts, kept = sets.shared(statements)
    assert texts == [statements[0], f"b IN {outer} AND 1 IN (SELECT 1)"]
    assert kept == [SharedSet(outer, (("c0", "TEXT"),), "SELECT b FROM u WHERE a IN (SELECT a FROM t)")]
    assert [k.name for k in sets.shared([*statements, f"a IN {inner}"])[1]] == [inner, outer]
    assert sets.shared([]) == ([], [])


def test_an_answer_computes_the_partners_of_a_join_once_and_writes_nothing(
    executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wb = Workbench(
        SCRIPT + "C := SELECT b.t, count(*) AS n FROM A a JOIN B b ON b.id = a.k GROUP BY b.t;", spark=executor
    )
    wb.insert("A", [dict(zip("ksn", r, strict=True)) for r in A])
    wb.insert("B", [dict(zip(("id", "t", "m"), r, strict=True)) for r in B])
    wb.step()
    made: list[str] = []
    make = SqliteReader.make

    def counted(reader: SqliteReader, connection: Any, sets: Sequence[SharedSet]) -> None:
        made.extend(s.query for s in sets)
        make(reader, connection, sets)
        with pytest.raises(Exception, match="readonly"):
            reader.run(connection, 'DELETE FROM "A"', ())

    monkeypatch.setattr(SqliteReader, "make", counted)
    found = wb.why("C", {"t": "a"})
    assert {r.relation: [row["_uid"] for row in r.rows] for r in found.inputs} == {"A": [3], "B": [8]}
    assert sum('FROM "A"' in q for q in made) == 2, "for what it is made of, and for what of that came last"
    wb.close()


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("CAST(1 AS INT) = 0", True),
        ("CAST(1 AS BIGINT) = 1", False),
        ("1e0 = 1.0e0", False),
        ("-1 = -2", True),
        ("-1 = -1", False),
        ("-1 = 1", True),
        ("(1) = (2)", True),
        ("'a' = CAST('b' AS STRING)", True),
        ("TRUE = FALSE", True),
        ("'1' = 1", False),
        ("CAST('a' AS INT) = 1", False),
        ("CAST('2020-01-01' AS DATE) = CAST('2020-01-02' AS DATE)", False),
        ("1 = NULL", True),
        ("NULL IS NULL", False),
        ("k = 1", False),
    ],
)
def test_literals_that_never_are_equal(text: str, never: bool) -> None:
    test = parse_one(text, dialect="spark")
    assert isinstance(test, exp.Expr)
    assert is_impossible(test) is never
