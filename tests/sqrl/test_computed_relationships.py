"""Relationships with parameters that compute rows: each answers as the plain SQL with the arguments as constants."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from belvedere.api.http.lineage import lineage_of
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import model_of
from belvedere.api.rest.openapi import openapi_of
from belvedere.compiler import compile_script
from belvedere.lang.endpoints.grants import grants_of
from belvedere.project.role_settings import RoleSettings
from tests.depth import at_night

SCRIPT = """
CREATE TABLE T (k INT, a INT, PRIMARY KEY (k));
CREATE TABLE U (k INT, t INT, v INT, w STRING, PRIMARY KEY (k));
CREATE TABLE W (w STRING, x INT, PRIMARY KEY (w));
T.us := JOIN U u ON u.t = _.k;
U.ws := JOIN W w ON w.w = _.w;
"""
QUERIES = {
    "grouped": "SELECT u.w, count(*) AS n, sum(u.v) AS s FROM U u WHERE u.t = {k} AND u.v >= {p} GROUP BY u.w",
    "whole": "SELECT count(*) AS n, max(u.v) AS s FROM U u WHERE u.t = {k} AND u.v >= {p}",
    "joined": "SELECT u.k, w.x FROM U u JOIN W w ON w.w = u.w WHERE u.t = {k} AND w.x > {p} - 3",
    "tested": """SELECT u.k FROM U u
        WHERE u.t = {k} AND u.v < {a} AND EXISTS (SELECT 1 FROM W w WHERE w.w = u.w AND w.x >= {p})""",
    "first": "SELECT u.v, u.k FROM U u WHERE u.t = {k} AND u.v <> {p} ORDER BY u.v DESC, u.k LIMIT 2",
    "several": "SELECT DISTINCT u.w FROM U u WHERE u.t = {k} AND (u.v = {p} OR u.v > {a})",
}
PATHS = {
    "along": ("SELECT r.w, count(*) AS n FROM _.us r WHERE r.v >= {p} GROUP BY r.w", "grouped", ("w", "n")),
    "farther": ("SELECT count(*) AS n FROM _.us.ws w WHERE w.x > {p} - 3", "joined", ("n",)),
}
ARGUMENTS = (0, 3)


def script() -> str:
    parts = [f"T.{n}(p INT) := {q.format(k='_.k', a='_.a', p=':p')};" for n, q in QUERIES.items()]
    parts += [f"T.{n}(p INT) := {q.format(p=':p')};" for n, (q, _, _) in PATHS.items()]
    return SCRIPT + "\n".join(parts)


def rows_of(random: Random) -> dict[str, list[dict[str, Any]]]:
    words = ["a", "b", "c", None]
    return {
        "T": [{"k": k, "a": random.choice([None, 1, 4])} for k in random.sample(range(6), 3)],
        "U": [
            {
                "k": k,
                "t": random.choice([*range(6), None]),
                "v": random.choice([None, *range(7)]),
                "w": random.choice(words),
            }
            for k in random.sample(range(20), 9)
        ],
        "W": [{"w": w, "x": random.choice([None, 1, 2, 6])} for w in random.sample(words[:3], 2)],
    }


def plain(wb: Any, query: str, owner: dict[str, Any], argument: int) -> list[dict[str, Any]]:
    """The answer of plain SQL over the stored rows, in another database."""
    import duckdb
    import pyarrow as pa

    types = {"T": {"k": "i4", "a": "i4"}, "U": {"k": "i4", "t": "i4", "v": "i4", "w": "s"}, "W": {"w": "s", "x": "i4"}}
    with duckdb.connect() as db:
        for name, columns in types.items():
            schema = pa.schema([(n, pa.string() if t == "s" else pa.int32()) for n, t in columns.items()])
            db.register(name, pa.Table.from_pylist(wb.rows(name), schema=schema))
        values = {n: "NULL" if v is None else v for n, v in owner.items()}
        found = db.execute(query.format(**values, p=argument))
        names = [d[0] for d in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def check(seed: int, executor: Any, store: str = "sqlite://") -> None:
    from belvedere import Workbench

    random, seen = Random(seed), defaultdict[str, int](int)
    wb = Workbench(script(), spark=executor, store=store)
    try:
        for _ in range(2):
            for table, rows in rows_of(random).items():
                wb.insert(table, rows)
            wb.step()
            for argument in ARGUMENTS:
                asked = " ".join(f"{n}(p: {argument}) {{ {fields(n)} }}" for n in (*QUERIES, *PATHS))
                for owner in wb.graphql(f"{{ t {{ k a {asked} }} }}")["data"]["t"]:
                    for name, query in QUERIES.items():
                        expected, answer = plain(wb, query, owner, argument), owner[name]
                        seen[name] += len(expected)
                        assert same(answer, expected), f"seed {seed}: {name}({argument}) of {owner}: {expected}"
                    assert same(owner["along"], [{"w": r["w"], "n": r["n"]} for r in owner["grouped"]])
                    assert owner["farther"] == {"n": len(owner["joined"])}
        assert seed or all(seen[name] for name in QUERIES), "seed 0 has rows for each"
    finally:
        wb.close()


def fields(name: str) -> str:
    found = {"grouped": "w n s", "whole": "n s", "joined": "k x", "tested": "k", "first": "v k", "several": "w"}
    return found.get(name) or " ".join(PATHS[name][2])


def same(answer: Any, expected: list[dict[str, Any]]) -> bool:
    rows = [answer] if isinstance(answer, dict) else answer

    def texts(found: list[dict[str, Any]]) -> list[str]:
        return sorted(repr(sorted(row.items())) for row in found)

    return texts(rows) == texts(expected)


@pytest.mark.parametrize("seed", [0, *at_night(range(1, 12))])
def test_answers_are_those_of_plain_sql(seed: int, executor: Any) -> None:
    check(seed, executor)


@pytest.mark.postgres
@pytest.mark.parametrize("seed", [20])
def test_answers_of_postgres_are_those_of_plain_sql(seed: int, executor: Any, postgres_url: str) -> None:
    check(seed, executor, postgres_url)


def test_each_is_a_query_of_the_catalog_with_indexes() -> None:
    from belvedere.optimize.indexes import read_indexes

    compiled = compile_script(script())
    assert compiled.ok, compiled.diagnostics
    assert {t.field for t in compiled.catalog.templates.values()} == {*QUERIES, *PATHS}
    assert ("t", "v") in {columns[:2] for columns in read_indexes(compiled.catalog, "U")}


BASE = """
CREATE TABLE T (k INT, a INT, PRIMARY KEY (k));
CREATE TABLE U (k INT, t INT, PRIMARY KEY (k));
T.sums(p INT) := SELECT count(*) AS n FROM U u WHERE u.t = _.k AND u.k >= :p;
T.b := a + 1;
"""


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("IMPORT base.U; IMPORT base.T AS Things; Things.c := b + 1;", {"Things.sums"}),
        ("IMPORT base.*;", {"T.sums"}),
        ("IMPORT base.U; IMPORT base.T AS A; IMPORT base.T AS B;", {"A.sums", "B.sums"}),
    ],
)
def test_it_comes_with_its_table_from_another_script(tmp_path: Path, imports: str, expected: set[str]) -> None:
    (tmp_path / "base.sqrl").write_text(BASE)
    compiled = compile_script(imports, path=tmp_path / "main.sqrl")
    assert compiled.ok, compiled.diagnostics
    assert {t.name for t in compiled.catalog.templates.values()} == expected
    model = model_of(compiled.catalog)
    assert not model.omitted
    assert {r.target for e in model.entities.values() for r in e.relations.values()} == expected


def test_what_another_script_does_not_share_is_named(tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_text(BASE)
    compiled = compile_script("IMPORT base.T;", path=tmp_path / "main.sqrl")
    found = [(d.code, d.message, d.hint) for d in compiled.diagnostics]
    message = 'relationship "T.sums" reads "U", which is not stored'
    assert found == [("B8021", message, "it belongs to another script: import it, too")]


def test_a_role_sees_it_with_all_that_it_reads() -> None:
    roles = {"all": ("T", "U", "W"), "some": ("T", "W")}
    catalog = compile_script(script()).catalog
    grants, found = grants_of(catalog, {n: RoleSettings(n, views=v) for n, v in roles.items()})
    assert not found
    assert grants["all"].templates == catalog.templates.keys()
    assert grants["some"].templates == frozenset()


def test_the_other_interfaces_show_it(executor: Any) -> None:
    from belvedere import Workbench

    wb = Workbench(script(), spark=executor)
    try:
        wb.insert("T", [{"k": 1, "a": 4}])
        wb.insert("U", [{"k": k, "t": 1, "v": k, "w": "a"} for k in (1, 2, 3)])
        wb.step()
        found = wb.rest("t?select=k,whole(n),first(k)&whole.p=2&first.p=3")
        assert found == [{"k": 1, "whole": {"n": 2}, "first": [{"k": 2}, {"k": 1}]}]
        assert wb.rest("t?select=k,whole(n)")["status"] == 400, "an argument is missing"
        model = model_of(wb.catalog)
        described = openapi_of(model, Limits(), closed=False)["components"]["schemas"]
        assert {"TWhole", "TFirst"} <= described.keys()
        graph = lineage_of(wb.catalog, model)
        (node,) = [n for n in graph["nodes"] if n["id"] == "T.joined()"]
        assert (node["kind"], sorted(node["reads"])) == ("template", ["U", "W"])
        assert {r["target"] for r in graph["relationships"]} <= {n["id"] for n in graph["nodes"]}
    finally:
        wb.close()
