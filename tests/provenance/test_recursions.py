"""Origins of rows of WITH RECURSIVE against a search of the graph, and reasons for unreachable rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.errors import fail
from belvedere.plan.operators.nodes import Node
from belvedere.plan.operators.recursion import Recursion
from belvedere.provenance.findings import PruningKind, PruningOperator, Why
from belvedere.provenance.key_tests import key_tests
from belvedere.provenance.why.input_rows import root_predicate
from belvedere.provenance.why.why import find_row, why
from belvedere.store.read.computed_views import text_at_read
from belvedere.store.read.shared_sets import Sets
from tests.depth import at_night
from tests.provenance.worlds import World, computed, inlined, is_among
from tests.rules.test_recursion import OPEN

SCRIPT = f"""
CREATE TABLE Start (n STRING, id INT, PRIMARY KEY (id));
CREATE TABLE Edge (a STRING, b STRING, k INT, PRIMARY KEY (k));
CREATE TABLE Shut (n STRING, PRIMARY KEY (n));
Reach := WITH RECURSIVE t AS (SELECT n FROM Start UNION SELECT e.b FROM t JOIN Edge e ON e.a <=> t.n) SELECT n FROM t;
Walks := WITH RECURSIVE t(n, len) AS (
    SELECT n, 0 FROM Start UNION ALL SELECT e.b, t.len + 1 FROM t JOIN Edge e ON e.a = t.n WHERE t.len < 2
) SELECT n, len FROM t;
{OPEN}"""
NAMES = [None, "a", "b", "ü", "c d"]
Edges = Mapping[int, tuple[Any, Any]]


def reached(starts: Iterable[Any], edges: Edges) -> set[Any]:
    """The nodes that can be reached; NULL is a node."""
    found: set[Any] = set()
    waiting = set(starts)
    while waiting:
        found |= waiting
        waiting = {b for a, b in edges.values() if a in waiting} - found
    return found


def leading(node: Any, starts: Mapping[int, Any], edges: Edges) -> tuple[set[int], set[int]]:
    """The starts and the edges of all ways to a node."""
    before = reached([node], {k: (b, a) for k, (a, b) in edges.items()}) & reached(starts.values(), edges)
    return {i for i, n in starts.items() if n in before}, {
        k for k, (a, b) in edges.items() if a in before and b in before
    }


def walks(node: Any, length: int, starts: Mapping[int, Any], edges: Edges) -> tuple[set[int], set[int]]:
    """The starts and the edges of all walks of a length to a node; none goes on from NULL."""
    if not length:
        return {i for i, n in starts.items() if n == node}, set()
    found: tuple[set[int], set[int]] = set(), set()
    for k, (a, b) in edges.items():
        if b == node and a is not None:
            there = walks(a, length - 1, starts, edges)
            if there[0]:
                found = found[0] | there[0], found[1] | there[1] | {k}
    return found


def named(found: Why) -> dict[str, set[Any]]:
    assert all(not r.untold and r.count == len(r.rows) for r in found.inputs), found.inputs
    key = {"Start": "id", "Edge": "k", "Shut": "n"}
    rows = {r.relation: {row[key[r.relation]] for row in r.rows} for r in found.inputs}
    return {"Start": set(), "Edge": set()} | rows


def by_database(wb: Workbench, view: str, key: Mapping[str, Any]) -> Why:
    """What is told without Spark."""
    with wb._query_runner() as query_runner:
        row, epoch = find_row(query_runner, view, key_tests(wb.catalog, view, key))
        return why(replace(query_runner, spark=None), view, row, epoch, size=100)


def no_recursion(plan: Node, dialect: str, sets: Sets) -> str:
    """The database says all but recursions."""
    if any(isinstance(n, Recursion) for n in plan.walk()):
        raise fail("B8020", "for Spark")
    return text_at_read(plan, dialect, sets)


@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(
    ("each_store", "seed"),
    [
        ("sqlite", 1),
        pytest.param("postgres", 2, marks=pytest.mark.postgres),
        *at_night([("sqlite", s) for s in range(3, 20)]),
    ],
    indirect=["each_store"],
)
def test_all_ways_to_a_row_and_no_other_rows_are_named(
    executor: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    wb = Workbench(SCRIPT, spark=executor)
    starts = {i: random.choice(NAMES) for i in range(2)}
    edges = {k: (random.choice(NAMES), random.choice(NAMES)) for k in range(6)}
    wb.insert("Start", [{"n": n, "id": i} for i, n in starts.items()])
    wb.insert("Edge", [{"a": a, "b": b, "k": k} for k, (a, b) in edges.items()])
    wb.insert("Shut", [{"n": random.choice(NAMES[1:])}])
    wb.step()
    row = random.choice(wb.rows("Reach"))
    ways = dict(zip(("Start", "Edge"), leading(row["n"], starts, edges), strict=True))
    stored = max(wb._stored("Walks").to_pylist(), key=lambda r: r["len"])
    walk = {n: stored[n] for n in wb.catalog.views["Walks"].schema.key or ()}
    walked = dict(zip(("Start", "Edge"), walks(stored["n"], stored["len"], starts, edges), strict=True))
    assert (named(by_database(wb, "Reach", row)), named(by_database(wb, "Walks", walk))) == (ways, walked)
    with monkeypatch.context() as patched:
        patched.setattr("belvedere.provenance.plan_queries.text_at_read", no_recursion)
        assert (named(wb.why("Reach", row, size=100)), named(wb.why("Walks", walk, size=100))) == (ways, walked)
    found = wb.why("Open", {"m": random.choice(wb.rows("Open"))["m"]}, size=100)
    plan = inlined(wb, "Open")
    (again,) = computed(wb, plan, [World({r.relation: r.rows for r in found.inputs}, root_predicate(plan, found.row))])
    assert is_among({n: found.row[n] for n in ("m", "c")}, again), (starts, edges, found)
    wb.close()


TREE = """
CREATE TABLE Start (n STRING, id INT, PRIMARY KEY (id));
CREATE TABLE Edge (a STRING, b STRING, k INT, PRIMARY KEY (k));
Reach := WITH RECURSIVE t AS (SELECT n FROM Start UNION SELECT e.b FROM t JOIN Edge e ON e.a = t.n WHERE e.k < 8)
    SELECT n FROM t;
"""


@pytest.fixture
def graph(executor: Any) -> Any:
    wb = Workbench(TREE, spark=executor)
    wb.insert("Start", [{"n": "a", "id": 0}])
    wb.insert(
        "Edge",
        [{"a": e[0], "b": e[1], "k": k} for k, e in enumerate(["ab", "bc", "ca", "cd", "bd", "pq", "rr", "dh", "dx"])],
    )
    wb.step()
    yield wb
    wb.close()


def test_a_cycle_and_what_is_said_of_it(graph: Any) -> None:
    found = graph.why("Reach", {"n": "d"}, size=100)
    assert [(r.relation, r.words) for r in found.reads] == [
        ("Start", "first rows of t that lead to it"),
        ("Edge", "steps of t that lead to it; joined by e.a = t.n"),
    ]
    assert named(found) == {"Start": {0}, "Edge": {0, 1, 2, 3, 4}}
    assert named(graph.why("Reach", {"n": "h"}, size=100))["Edge"] == {0, 1, 2, 3, 4, 7}


STEPS = {
    "Outer": "SELECT e.b FROM t LEFT JOIN Edge e ON e.a = t.n",
    "Not": "SELECT e.b FROM t JOIN Edge e ON e.a = t.n WHERE NOT EXISTS (SELECT 1 FROM Edge s WHERE s.a = e.b)",
    "Two": "(SELECT e.b FROM t JOIN Edge e ON e.a = t.n UNION ALL SELECT e.a FROM t JOIN Edge e ON e.b = t.n)",
}
REPORTED = (
    "Some",
    "SELECT e.b FROM t JOIN Edge e ON e.a = t.n AND e.k < 8 WHERE t.n IN (SELECT a FROM Edge) AND t.n <> 'x'",
)


def test_what_the_database_cannot_say_alone(executor: Any) -> None:
    """Steps that no database takes in its WITH RECURSIVE; a semi-join it does."""
    recursions = "".join(
        f"{n} := WITH RECURSIVE t AS (SELECT n FROM Start UNION {s}) SELECT n FROM t;\n"
        for n, s in (*STEPS.items(), REPORTED)
    )
    wb = Workbench(TREE + recursions, spark=executor)
    wb.insert("Start", [{"n": "a", "id": 0}])
    wb.insert("Edge", [{"a": a, "b": b, "k": k} for k, (a, b) in enumerate(["ab", "bc", "pq"])])
    wb.step()
    for view in STEPS:
        found = by_database(wb, view, {"n": "b" if view != "Not" else "a"})
        words = "WITH RECURSIVE of such a step cannot be computed at read time"
        assert {(r.relation, r.untold) for r in found.inputs} == {("Start", words), ("Edge", words)}, view
        assert found.since is not None
        assert f"the last arrival of `Edge`: {words}" in found.since.unknown
    assert named(by_database(wb, REPORTED[0], {"n": "c"})) == {"Start": {0}, "Edge": {0, 1}}
    wb.close()


def places(found: Iterable[PruningOperator]) -> list[tuple[str, PruningKind]]:
    return [(f.view, f.at) for f in found]


def test_why_a_row_is_not_reached(graph: Any) -> None:
    start, edge = graph.why_not("Reach", {"n": "z"}).lost
    assert places([start, edge]) == [("Start", PruningKind.INPUT), ("Edge", PruningKind.INPUT)]
    assert "`Edge` has no row with b = 'z'" in edge.words
    start, step = graph.why_not("Reach", {"n": "q"}).lost
    assert (start.view, step.at) == ("Start", PruningKind.JOIN)
    assert "`Edge` has 1 row, `t` none with 'p' = t.n" in step.words
    assert [(r.words, [row["e.b"] for row in r.rows]) for r in step.near] == [("have no partner", ["q"])]
    start, step = graph.why_not("Reach", {"n": "r"}).lost  # an edge to itself
    assert step.at is PruningKind.JOIN
    start, step = graph.why_not("Reach", {"n": "x"}).lost
    assert step.at is PruningKind.FILTER
    assert "drops them: e.k < 8 is FALSE" in step.words
