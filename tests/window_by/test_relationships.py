"""Relationships in WINDOW BY: paths in FROM are joins, paths in other clauses read the related row.

Each view has a twin with the join as text. After each epoch, with restarts between, both have the same rows, and those
of a batch.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night

TABLES = """
CREATE TABLE O (id INT, k STRING, ts INT, v INT, tags ARRAY<STRUCT<a INT, b STRING>>, PRIMARY KEY (id));
CREATE TABLE C (k STRING, low INT, g STRING, PRIMARY KEY (k));
CREATE TABLE G (g STRING, name STRING, PRIMARY KEY (g));
C.orders := JOIN O o ON o.k = _.k;
C.large := JOIN O o ON o.k = _.k AND o.v > _.low;
C.latest := JOIN O o ON o.k = _.k ORDER BY o.ts DESC, o.id LIMIT 2;
C.grp := JOIN G g ON g.g = _.g;
G.members := JOIN C c ON c.g = _.g;
O.customer := JOIN C c ON c.k = _.k;
"""
FALLS = (
    "TYPE TUMBLING START AS s END AS e NEXT AS n WHEN n.x.v < e.x.v SELECT s.x.id AS id, ARRAY_COUNT(w) AS n, "
    "e.x.id AS last"
)
ALONE = (
    "TYPE TUMBLING START AS s END AS e NEXT AS n WHEN n.v < e.v SELECT s.id AS id, ARRAY_COUNT(w) AS n, e.id AS last"
)
BY = "WINDOW BY w PARTITION BY x.k ORDER BY x.ts, x.id"
PATHS = {
    "Joined": (f"FROM C AS t JOIN t.orders AS x {BY} {FALLS}", f"FROM C AS t JOIN O AS x ON x.k = t.k {BY} {FALLS}"),
    "Comma": (f"FROM C AS t, t.orders AS x {BY} {FALLS}", f"FROM C AS t JOIN O AS x ON x.k = t.k {BY} {FALLS}"),
    "More": (
        f"FROM C AS t JOIN t.large AS x {BY} {FALLS}",
        f"FROM C AS t JOIN O AS x ON x.k = t.k AND x.v > t.low {BY} {FALLS}",
    ),
    "Left": (
        "FROM C AS t LEFT JOIN t.large AS x WINDOW BY w PARTITION BY t.g ORDER BY t.k, x.id TYPE TUMBLING START AS s "
        "END NEXT AS n "
        "WHEN n.x IS MISSING SELECT s.t.k AS k, s.x.id AS id, LEN(w) AS n",
        "FROM C AS t LEFT JOIN O AS x ON x.k = t.k AND x.v > t.low WINDOW BY w PARTITION BY t.g ORDER BY t.k, x.id "
        "TYPE TUMBLING "
        "START AS s END NEXT AS n WHEN n.x IS MISSING SELECT s.t.k AS k, s.x.id AS id, LEN(w) AS n",
    ),
    "Steps": (
        f"FROM G AS t JOIN t.members.orders AS x {BY} {FALLS}",
        f"FROM G AS t JOIN C AS c ON c.g = t.g JOIN O AS x ON x.k = c.k {BY} {FALLS}",
    ),
    "Table": (f"FROM C.orders AS x {BY} {ALONE}", f"FROM C AS t JOIN O AS x ON x.k = t.k {BY} {FALLS}"),
    "Start": (
        f"FROM O AS x {BY} TYPE TUMBLING START AS s WHEN s.v > s.customer.low END AS e WHEN e.v <= e.customer.low "
        "SELECT s.id AS id, e.id AS last, s.customer.g AS g, ARRAY_COUNT(w) AS n",
        f"FROM O AS x LEFT JOIN C AS c ON c.k = x.k {BY} TYPE TUMBLING START AS s WHEN s.x.v > s.c.low END AS e WHEN "
        f"e.x.v <= e.c.low "
        "SELECT s.x.id AS id, e.x.id AS last, s.c.g AS g, ARRAY_COUNT(w) AS n",
    ),
    "Far": (
        "FROM O AS x WINDOW BY w PARTITION BY x.customer.grp.name ORDER BY x.ts, x.id TYPE SLIDING START AS s WHEN "
        "s.v > 4 "
        "END AS e WHEN e.customer.grp.name = 'b' AND e.v < s.v SELECT s.id AS id, e.id AS last, s.customer.grp.name "
        "AS name",
        "FROM O AS x LEFT JOIN C AS c ON c.k = x.k LEFT JOIN G AS g ON g.g = c.g WINDOW BY w PARTITION BY g.name "
        "ORDER BY x.ts, x.id "
        "TYPE SLIDING START AS s WHEN s.x.v > 4 END AS e WHEN e.g.name = 'b' AND e.x.v < s.x.v "
        "SELECT s.x.id AS id, e.x.id AS last, s.g.name AS name",
    ),
    "Nested": (
        "FROM O AS t JOIN t.tags AS x WINDOW BY w PARTITION BY t.id ORDER BY x.a, x.b TYPE TUMBLING START AS s END AS "
        "e NEXT AS n "
        "WHEN n.x.a - e.x.a > 1 SELECT s.t.id AS id, s.x.b AS b, ARRAY_COUNT(w) AS n",
        "FROM O AS t UNNEST t.tags AS x WINDOW BY w PARTITION BY t.id ORDER BY x.a, x.b TYPE TUMBLING START AS s END "
        "AS e NEXT AS n "
        "WHEN n.x.a - e.x.a > 1 SELECT s.t.id AS id, s.x.b AS b, ARRAY_COUNT(w) AS n",
    ),
    "Rows": (
        "FROM O.tags AS x WINDOW BY w PARTITION BY x.b ORDER BY x.a TYPE TUMBLING START AS s END AS e NEXT AS n "
        "WHEN n.a - e.a > 1 SELECT s.b AS b, s.a AS a, ARRAY_COUNT(w) AS n",
        "FROM O AS t UNNEST t.tags AS x WINDOW BY w PARTITION BY x.b ORDER BY x.a TYPE TUMBLING START AS s END AS e "
        "NEXT AS n "
        "WHEN n.x.a - e.x.a > 1 SELECT s.x.b AS b, s.x.a AS a, ARRAY_COUNT(w) AS n",
    ),
}


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(r) for r in rows)


def changed(wb: Workbench, random: Random, rows: dict[str, dict[Any, dict[str, Any]]]) -> None:
    """Insert, replace and delete some rows."""
    for table, make in (("O", order), ("C", customer), ("G", group)):
        known = rows[table]
        for row in [make(random) for _ in range(5 if table == "O" else 2)]:
            key = next(iter(row.values()))
            known[key] = row
            wb.insert(table, [row])
        for key in [k for k in sorted(known) if random.random() < 0.15]:
            wb.delete(table, [known.pop(key)])


def order(random: Random) -> dict[str, Any]:
    tags = [{"a": a, "b": random.choice("pq")} for a in random.sample(range(8), random.randrange(4))]
    found = {"id": random.randrange(20), "k": random.choice(["x", "y", "z", None]), "ts": random.randrange(9)}
    return {**found, "v": random.randrange(9), "tags": tags}


def customer(random: Random) -> dict[str, Any]:
    return {"k": random.choice("xyz"), "low": random.choice([None, 2, 4]), "g": random.choice("gh")}


def group(random: Random) -> dict[str, Any]:
    return {"g": random.choice("gh"), "name": random.choice("ab")}


@pytest.mark.parametrize("seed", [1, *at_night(range(2, 8))])
def test_a_path_is_the_join_that_it_names(executor: Any, seed: int) -> None:
    random, rows = Random(seed), {"O": dict[Any, Any](), "C": dict[Any, Any](), "G": dict[Any, Any]()}
    text = "".join(f"{n} := {path};\n{n}Twin := {join};\n" for n, (path, join) in PATHS.items())
    wb = Workbench(TABLES + text, spark=executor)
    filled = set[str]()
    for _ in range(4):
        changed(wb, random, rows)
        wb.step()
        if random.random() < 0.3:
            wb.restart()
        for name in PATHS:
            found = bag(wb.rows(name))
            filled |= {name} if found else set()
            assert found == bag(wb.rows(f"{name}Twin")), name
    batches = wb.batches(list(PATHS))
    for name in PATHS:
        assert bag(wb.rows(name)) == bag(batches[name]), name
    assert filled == PATHS.keys()
    wb.close()


def test_the_first_rows_of_a_relationship_are_joined(executor: Any) -> None:
    view = (
        f"Latest := FROM C AS t JOIN t.latest AS x {BY} TYPE SLIDING START AS s END UNBOUNDED SELECT s.x.id AS "
        f"id, LEN(w) AS n;"
    )
    wb = Workbench(TABLES + view, spark=executor)
    wb.insert("C", [{"k": "x", "low": 1, "g": "g"}])
    wb.insert("O", [{"id": n, "k": "x", "ts": n, "v": n, "tags": []} for n in range(4)])
    wb.step()
    assert sorted((r["id"], r["n"]) for r in wb.rows("Latest")) == [(2, 2), (3, 1)]
    wb.close()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "FROM C AS t JOIN O AS x WINDOW BY w ORDER BY x.ts TYPE SLIDING START AS s END UNBOUNDED SELECT s.x.id",
            "B1601",
        ),
        (
            "FROM C AS t JOIN t.orders AS x ON TRUE WINDOW BY w ORDER BY x.ts TYPE SLIDING START AS s END UNBOUNDED "
            "SELECT s.x.id AS i",
            "B3623",
        ),
        (
            "FROM C AS t JOIN O.tags AS x WINDOW BY w ORDER BY x.a TYPE SLIDING START AS s END UNBOUNDED "
            "SELECT s.x.a AS a",
            "B1601",
        ),
        (
            "FROM G AS t JOIN C.orders AS x WINDOW BY w ORDER BY x.ts TYPE SLIDING START AS s END UNBOUNDED "
            "SELECT s.x.id AS i",
            "B1601",
        ),
        (
            "FROM C AS t WINDOW BY w ORDER BY t.k TYPE SLIDING START AS s END UNBOUNDED "
            "SELECT s.k AS k, (SELECT VALUE x.id FROM s.orders AS x) AS ids",
            "B4003",
        ),
    ],
)
def test_joins_without_a_condition_are_refused(text: str, code: str) -> None:
    found = compile_script(f"{TABLES}V := {text};")
    assert [d.code for d in found.diagnostics if d.severity.value == "error"] == [code]


EACH = "WINDOW BY w ORDER BY x.ts, x.id TYPE SLIDING START AS s END AS e WHEN TRUE"
SAME_NAMES = """
CREATE TABLE O (id INT, k STRING, ts INT, v INT, PRIMARY KEY (id));
CREATE TABLE P (id INT, k STRING, ts INT, v INT, PRIMARY KEY (id));
CREATE TABLE C (k STRING, PRIMARY KEY (k));
CREATE TABLE D (k STRING, PRIMARY KEY (k));
C.orders := JOIN O o ON o.k = _.k;
D.orders := JOIN P o ON o.k = _.k;
O.customer := JOIN C c ON c.k = _.k;
C.top := SELECT o.id, o.ts, o.v FROM O o WHERE o.k = _.k AND o.v > 150;
D.top := JOIN O o ON o.k = _.k;
"""


def rows_of(executor: Any, query: str) -> list[dict[str, Any]]:
    """Return the rows of a view over SAME_NAMES: an order of `x` and one of `y` in O, another of `x` in P."""
    wb = Workbench(f"{SAME_NAMES}V := {query};", spark=executor)
    for table in "CD":
        wb.insert(table, [{"k": "x"}, {"k": "y"}])
    wb.insert("O", [{"id": 1, "k": "x", "ts": 1, "v": 100}, {"id": 2, "k": "y", "ts": 2, "v": 200}])
    wb.insert("P", [{"id": 3, "k": "x", "ts": 3, "v": 300}])
    wb.step()
    found = wb.rows("V")
    assert bag(found) == bag(wb.batches(["V"])["V"])
    wb.close()
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    "query",
    [
        f"FROM C AS t JOIN t.orders AS x {EACH} SELECT s.x.id AS id UNION ALL "
        f"FROM D AS t JOIN t.orders AS x {EACH} SELECT s.x.id AS id",
        f"FROM (SELECT x.id AS id, x.ts AS ts FROM C AS t JOIN t.orders AS x UNION ALL "
        f"SELECT x.id AS id, x.ts AS ts FROM D AS t JOIN t.orders AS x) AS x {EACH} SELECT s.id AS id",
        f"WITH q AS (SELECT x.id AS id, x.ts AS ts FROM C AS t JOIN t.orders AS x UNION ALL "
        f"SELECT x.id AS id, x.ts AS ts FROM D AS t JOIN t.orders AS x) FROM q AS x {EACH} SELECT s.id AS id",
    ],
    ids=["blocks", "subquery", "with"],
)
def test_equal_paths_of_different_tables_read_their_own_tables(executor: Any, query: str) -> None:
    assert rows_of(executor, query) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_variable_hides_a_table_of_its_name(executor: Any) -> None:
    found = rows_of(executor, f"FROM D AS C JOIN C.top AS x {EACH} SELECT s.C.k AS k, s.x.id AS id")
    assert found == [{"k": "x", "id": 1}, {"k": "y", "id": 2}]
    view = f"V := FROM C AS C JOIN C.top AS x {EACH} SELECT s.x.id AS id;"
    assert [d.code for d in compile_script(SAME_NAMES + view).diagnostics if d.severity.value == "error"] == ["B3623"]


ORDER = {"id": 2, "k": "y", "ts": 2, "v": 200}


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT s AS r", {"r": ORDER}),
        ("SELECT w AS r", {"r": [ORDER]}),
        ("SELECT s.*", ORDER),
        ("SELECT s.*, s.customer AS customer", {**ORDER, "customer": {"k": "y"}}),
        ("SELECT LEN(s) AS n, (SELECT VALUE x.customer.k FROM w AS x) AS k", {"n": 4, "k": ["y"]}),
        (
            f"SELECT s AS r UNION ALL FROM P AS x WHERE x.id > 3 {EACH} SELECT s AS r",
            {"r": ORDER},
        ),
    ],
)
def test_a_whole_row_has_no_related_row(executor: Any, select: str, expected: dict[str, Any]) -> None:
    window = "WINDOW BY w ORDER BY x.ts, x.id TYPE SLIDING START AS s WHEN s.customer.k = 'y' END AS e WHEN TRUE"
    assert rows_of(executor, f"FROM O AS x {window} {select}") == [expected]


def test_a_joined_row_has_its_related_row(executor: Any) -> None:
    found = rows_of(executor, f"FROM C AS t JOIN t.orders AS x {EACH} SELECT s.x.id AS id, s.x.customer.k AS k")
    assert found == [{"id": 1, "k": "x"}, {"id": 2, "k": "y"}]
