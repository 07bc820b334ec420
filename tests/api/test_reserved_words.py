"""Reserved words of languages as names in rows, filters, orders, pages, groups, relationships and parameters.

The rows are those of Python. Every word of SQLite, Postgres, Spark, GraphQL, TypeScript and Python is a table, a column
of each kind of relation, a relationship, a query template, its parameter and a variable, on both databases.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.api.access.callers import Caller
from belvedere.api.graphql.api import Api
from belvedere.api.reads.role_catalog import role_catalog
from belvedere.api.rest.in_process import execute_rest
from belvedere.catalog.access import Right
from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import read_project
from belvedere.store import EpochRow, StoredTable, open_reader, open_store
from belvedere.store.dialects import DIALECTS
from belvedere.store.read.computed_views import computed_table
from tests.depth import at_night

SQLITE = """abort action add after all alter always analyze and as asc attach autoincrement before begin between by
    cascade case
cast check collate column commit conflict constraint create cross current current_date current_time current_timestamp
database default deferrable deferred delete desc detach distinct do drop each else end escape except exclude exclusive
exists explain fail filter first following for foreign from full generated glob group groups having if ignore immediate
in index indexed initially inner insert instead intersect into is isnull join key last left like limit match
materialized natural no not nothing notnull null nulls of offset on or order others outer over partition plan pragma
preceding primary query raise range recursive references regexp reindex release rename replace restrict returning right
rollback row rows savepoint select set table temp temporary then ties to transaction trigger unbounded union unique
update using vacuum values view virtual when where window with without true false rowid oid _rowid_ e g i p q c n o0 g0
a0 v0 one t0 t1 epoch clock content committed_at"""
POSTGRES = """analyse any array asymmetric authorization binary both collation concurrently current_catalog current_role
current_schema current_user end fetch freeze grant ilike initially lateral leading localtime localtimestamp only
overlaps placing session_user similar some symmetric system_user tablesample trailing user variadic verbose int integer
bigint char date time timestamp interval numeric real text boolean ctid xmin xmax tableoid cmin cmax"""
SPARK = """anti bucket cube cluster describe distribute explode function lateral_view map minus percent pivot qualify
    rollup semi
sets sort struct stratify tablesample transform unpivot uncache unset zone day hour minute second month year"""
GRAPHQL = """query mutation subscription fragment type input enum interface scalar schema directive extend implements
    repeatable
Query Mutation Subscription Int Float String Boolean ID Long JSON node nodes edges pageInfo id filter order limit offset
asOf some none isNull eq __typename cursor after first data errors extensions"""
TYPESCRIPT = """await break catch class const constructor continue debugger declare delete export extends finally
    import instanceof let
module namespace never new package private protected public readonly return static super switch symbol this throw try
typeof undefined unknown var void while yield prototype toString hasOwnProperty valueOf"""
PYTHON = " ".join([*keyword.kwlist, "self", "cls", "print", "list", "dict", "object", "type", "match"])
HARD = (
    "true",
    "false",
    "True",
    "False",
    "null",
    "None",
    "rowid",
    "oid",
    "ctid",
    "select",
    "order",
    "group",
    "on",
    "e",
    "t0",
    "c",
    "n",
    "o0",
)
EVERY = list(dict.fromkeys(" ".join((SQLITE, POSTGRES, SPARK, GRAPHQL, TYPESCRIPT, PYTHON)).split()))
WORDS_OF_REST = ("select", "order", "limit", "offset", "and", "or", "not", "after", "as_of")
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


def distinct(words: list[str]) -> list[str]:
    """Words that differ by more than the size of letters, and begin with no underscore: such names are private."""
    return list({w.casefold(): w for w in reversed(words) if not w.startswith("_")}.values())[::-1]


def parts() -> list[list[str]]:
    """The hard words, and by day a part of the others."""
    others = distinct([w for w in EVERY if w not in HARD])
    return [distinct(list(HARD)), *(others[n::20] for n in range(20))]


def script(words: list[str]) -> str:
    columns = ", ".join(f"`{w}` INT" for w in words)
    text = f"CREATE TABLE Wide (key_ INT NOT NULL, {columns}, PRIMARY KEY (key_));\n"
    for w in words:
        text += f"""CREATE TABLE `{w}` (`{w}` INT NOT NULL, other INT, PRIMARY KEY (`{w}`));
Wide.`{w}s` := JOIN `{w}` r ON r.other = _.`{w}` ORDER BY r.`{w}` DESC LIMIT 3;
/*+ at_read */
`{w}Read` := SELECT `{w}`, other > 10 AS large FROM `{w}` WHERE other > 0;
`{w}Of`(`{w}` INT) := SELECT `{w}` AS `{w}`, other + 1 AS other FROM (SELECT * FROM `{w}` WHERE other > 0) x
    WHERE `{w}` >= :`{w}`;
"""
    return text


ROWS = [{"key_": 0}, {"key_": 1}]


def wide_rows(words: list[str]) -> list[dict[str, Any]]:
    return [{"key_": k} | {w: (n % 3 + k if k or n % 5 else None) for n, w in enumerate(words)} for k in range(2)]


def rows_of(word: str) -> list[dict[str, Any]]:
    return [{word: n, "other": n % 4} for n in range(8)]


def catalog_of(words: list[str]) -> Catalog:
    names = json.dumps(["Wide", *words])
    roles = f"[roles.some]\nviews = {names}\n[roles.some.rows]\n"
    roles += "".join(f'"{w}" = "`{w}` < 6"\n' for w in words)
    file = Path("/nowhere/belvedere.toml")
    compiled = compile_script(script(words), project=read_project(roles, file.parent, file, {}))
    assert compiled.ok, [d for d in compiled.diagnostics if d.severity == "error"]
    return compiled.catalog


def fill(url: str, catalog: Catalog, words: list[str]) -> None:
    store = open_store(url)
    dialect = DIALECTS["postgres" if url.startswith("postgres") else "sqlite"]
    tables = {
        i: StoredTable(i, catalog.schema_of(i), fingerprint="test")
        for i in catalog.public
        if i not in catalog.placement.at_read
    }
    computed = [computed_table(catalog, i, plan, dialect) for i, plan in catalog.placement.at_read.items()]
    store.create([*tables.values(), *computed])
    store.acquire("test", 600)
    transaction = store.begin()
    for id_, table in tables.items():
        given = wide_rows(words) if id_ == "Wide" else rows_of(id_)
        key = (table.schema.key or ("",))[0]
        beside = {"_ingest_time": NOON, "_uid": 1}
        made = [{c: ({"_key": str(r[key])} | beside | r).get(c) for c in table.arrow.names} for r in given]
        transaction.append(id_, pa.Table.from_pylist(made, table.arrow).to_reader())
    transaction.commit(EpochRow(1, NOON))
    store.release("test")
    store.close()


@pytest.fixture(scope="module")
def postgres_url(postgres_server: str) -> Iterator[Any]:
    from adbc_driver_postgresql import dbapi

    made: list[str] = []

    def make(name: str) -> str:
        with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        made.append(name)
        return postgres_server.replace("/postgres?", f"/{name}?")

    yield make
    with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
        for name in made:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("part", [0, 1, *at_night(range(2, 21))])
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_every_word_is_a_name(request: pytest.FixtureRequest, tmp_path: Path, database: str, part: int) -> None:
    words = parts()[part]
    catalog = catalog_of(words)
    url = (
        f"sqlite:///{tmp_path / 's.db'}"
        if database == "sqlite"
        else request.getfixturevalue("postgres_url")(f"words{part}")
    )
    fill(url, catalog, words)
    reader = open_reader(url)
    api = Api(catalog, reader)
    some = Api(role_catalog(catalog, catalog.access.grants["some"]), reader)
    entities = {e.name: e for e in api.model.entities.values()}
    assert set(words) <= set(entities)
    asked = Caller({}, "some", frozenset({Right.READ}))

    def ask(of: Api, text: str, /, **variables: Any) -> Any:
        answer = json.loads(of.answer(text, variables, claims=asked))
        return answer["data"]

    wide, rows = entities["Wide"], wide_rows(words)
    shown = {c.name: n for n, c in wide.columns.items()}
    columns = " ".join(f"c{n}: {shown[w]}" for n, w in enumerate(words))
    right = [{f"c{n}": r[w] for n, w in enumerate(words)} for r in rows]
    assert ask(api, f"{{ wide {{ {columns} }} }}")["wide"] == right
    assert ask(some, f"{{ widePage(first: 5) {{ nodes {{ {columns} }} endCursor }} }}")["widePage"]["nodes"] == right
    for word in words:
        entity = entities[word]
        own = next(n for n, c in entity.columns.items() if c.name == word)
        f, variable = entity.field, word if word.isidentifier() else "v"
        order = f"order: [{{{own}: DESC}}]"
        text = f"query(${variable}: Int) {{ a: {f}(filter: {{{own}: {{gte: ${variable}}}}}, {order}) {{ {own} other }} "
        text += f"p: {entity.page}(first: 2, {order}) {{ nodes {{ {own} }} endCursor totalCount }} "
        text += f"g: {entity.aggregate} {{ by {{ other }} max {{ {own} }} }} k: {entity.by_key}({own}: 3) {{ {own} }} "
        text += (
            f"w: wide(filter: {{{shown[word]}: {{isNull: false}}}}) {{ key_ {_relation(wide, word)} {{ {own} }} }} }}"
        )
        found = ask(api, text, **{variable: 5})
        assert [r[own] for r in found["a"]] == [7, 6, 5], word
        assert ([r[own] for r in found["p"]["nodes"]], found["p"]["totalCount"]) == ([7, 6], 8)
        assert [g["max"][own] for g in found["g"]] == [4, 5, 6, 7]
        assert found["k"] == {own: 3}
        links = {
            r["key_"]: sorted((o[word] for o in rows_of(word) if o["other"] == r[word]), reverse=True) for r in rows
        }
        assert {r["key_"]: [o[own] for o in r[_relation(wide, word)]] for r in found["w"]} == {
            r["key_"]: links[r["key_"]] for r in rows if r[word] is not None
        }
        assert [r[own] for r in ask(some, f"{{ {f}({order}) {{ {own} }} }}")[f]] == [5, 4, 3, 2, 1, 0], word
        read = entities[f"{word}Read"]
        of_read = next(n for n, c in read.columns.items() if c.name == word)
        assert [r[of_read] for r in ask(api, f"{{ {read.field}({order}) {{ {of_read} large }} }}")[read.field]] == [
            7,
            6,
            5,
            3,
            2,
            1,
        ]
        template = next(t for t in api.model.templates.values() if t.template.name == f"{word}Of")
        (parameter,), column = template.parameters, next(n for n, c in template.columns.items() if c.name == word)
        rows_found = ask(api, f"{{ {template.field}({parameter}: 6) {{ {column} other }} }}")[template.field]
        assert sorted(r[column] for r in rows_found) == [6, 7], word
        # REST has words of its own, that columns of these names cannot be filtered by
        filtered = "" if own in WORDS_OF_REST else f"{own}=gte.6&"
        rest = execute_rest(catalog, None, reader, f"{f}?{filtered}order={own}.desc&select={own}&limit=2")
        assert rest == [{own: 7}, {own: 6}], word
    reader.close()


def _relation(wide: Any, word: str) -> str:
    found: str = next(n for n in wide.relations if n.casefold() in (f"{word}s".casefold(), f"{word}s_2".casefold()))
    return found
