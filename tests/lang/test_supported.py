"""No part of a query is ignored: each argument of each parser class is read, or rejected with name and position."""

from __future__ import annotations

import pytest
from sqlglot import exp

from belvedere.compiler import compile_script
from belvedere.engine.sql.plan_sql import render
from belvedere.functions.function_table import BY_KEY
from belvedere.syntax.supported import ONE, PRINTED_AS_LISTED, READ, WORDS, unsupported

OURS = {"emit", "stream", "within", "over", "spl", "levels", "as_written"}
"""Arguments that our dialect adds to classes of the parser."""
ARGUMENTS = [(class_, name) for class_ in READ for name in class_.arg_types if name not in READ[class_]]


@pytest.mark.parametrize(("class_", "name"), ARGUMENTS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_an_argument_that_nobody_reads_is_refused(class_: type[exp.Expr], name: str) -> None:
    for value in (exp.column("q"), [exp.column("q")], True, "WORD"):
        node = class_(**{name: value})
        node.meta["start"], node.meta["end"] = 5, 9
        found = list(unsupported(node))
        assert [p.code for p in found] == ["B3040"], name
        assert (found[0].start, found[0].end) == (5, 9)
        assert found[0].hint


def test_what_is_read_is_there_to_be_read() -> None:
    for class_, names in READ.items():
        assert names <= set(class_.arg_types) | OURS, class_
        plain = class_(**{n: next(iter(WORDS[class_, n]), "") if (class_, n) in WORDS else exp.null() for n in names})
        for class_and_name in ONE:
            if class_and_name[0] is class_:
                plain.set(class_and_name[1], [exp.null()])
        assert [p for p in unsupported(plain) if p.code == "B3040"] == [], class_


@pytest.mark.parametrize(("class_", "name"), WORDS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_a_word_that_nobody_reads_is_refused(class_: type[exp.Expr], name: str) -> None:
    assert [p.code for p in unsupported(class_(**{name: "NONSENSE"}))] == ["B3040"]


def test_a_class_that_nobody_knows_is_refused() -> None:
    assert [p.code for p in unsupported(exp.Pragma(this=exp.column("q")))] == ["B3040"]


def functions_and_operators() -> list[type[exp.Expr]]:
    """The classes of the parser that are printed for Spark: operators, and functions that the table has."""
    classes = [c for c in vars(exp).values() if isinstance(c, type) and issubclass(c, exp.Expr) and c not in READ]
    abstract = (exp.Binary, exp.Connector, exp.NestedJSONSelect, *PRINTED_AS_LISTED)
    return [
        c
        for c in classes
        if c not in abstract and (issubclass(c, exp.Binary) or (issubclass(c, exp.Func) and c.__name__ in BY_KEY))
    ]


@pytest.mark.parametrize("class_", functions_and_operators(), ids=lambda c: c.__name__)
def test_an_argument_of_a_function_is_printed_or_refused(class_: type[exp.Expr]) -> None:
    names = list(class_.arg_types)
    required = [name for name in names if class_.arg_types[name]]
    for name in names:
        several = issubclass(class_, exp.Func) and class_.is_var_len_args
        columns = {n: exp.column(f"q_{n}") for n in (*required, name)}
        for argument in columns.values():
            argument.meta["start"], argument.meta["end"] = 6, 8
        given = {n: [c] if several and n == names[-1] else c for n, c in columns.items()}
        node = class_(**given)
        node.meta["start"], node.meta["end"] = 5, 9
        found = [(p.start, p.end) for p in unsupported(node) if p.code in ("B3015", "B3006")]
        assert found in ([(6, 8)], [(5, 9)]) or f"q_{name}" in node.sql("spark").lower(), name


TABLE = "CREATE TABLE O (id INT, js STRING, x INT, y INT, m MAP<STRING, INT>, l ARRAY<INT>, PRIMARY KEY (id));\n"
REFUSED = [
    ("(SELECT id, x FROM O) |> AGGREGATE count(*) AS n GROUP BY 3", "B3042", "3", "there are 2 columns"),
    ("(SELECT id FROM O) |> AGGREGATE count(*) AS n GROUP BY -1", "B3042", "1", "there is 1 column"),
    ("(SELECT id FROM O) |> AGGREGATE count(*) AS n GROUP BY 'x'", "B3040", "'x'", "name the column"),
    ("SELECT explode(list => l) AS x FROM O", "B3040", "explode(list => l)", "its parameter is collection"),
    ("SELECT upper(str => js) AS x FROM O", "B3040", "upper(str => js)", "in order"),
    ("SELECT id FROM O LIMIT 40 PERCENT", "B3040", "LIMIT 40 PERCENT", "number of rows"),
    ("SELECT id FROM O LIMIT 1 BY id", "B3040", "LIMIT 1 BY id", "row_number()"),
    ("SELECT id FROM O ORDER BY id LIMIT 1 WITH TIES", "B3040", "LIMIT 1 WITH TIES", "rank()"),
    ("SELECT id FROM O ORDER BY id FETCH FIRST 1 ROWS WITH TIES", "B3040", "", "rank()"),
    ("SELECT * REPLACE (x AS z) FROM O", "B2002", "", "did you mean"),
    ("SELECT * RENAME (q AS z) FROM O", "B2002", "", "did you mean"),
    ("SELECT * ILIKE 'a%' FROM O", "B3040", "'a%'", "name the columns"),
    ("SELECT x, count(*) AS n FROM O GROUP BY x WITH TOTALS", "B3040", "", "ROLLUP"),
    ("SELECT sum(x) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE CURRENT ROW) AS s FROM O", "B3040", "", "own value"),
    ("SELECT sum(x) OVER (ORDER BY id GROUPS 1 PRECEDING) AS s FROM O", "B3040", "", "ROWS or RANGE"),
    ("SELECT sum(x) OVER (w ORDER BY y) AS s FROM O WINDOW w AS (PARTITION BY y)", "B3040", "", "without the name"),
    ("SELECT sum(x) OVER v AS s FROM O WINDOW w AS (PARTITION BY y), v AS (w ORDER BY id)", "B3040", "",
     "without the name"),
    ("SELECT id FROM O GROUP BY ALL id", "B3040", "GROUP BY ALL id", "all keys"),
    ("SELECT abs(e -> e) AS a FROM O", "B3001", "", ""),
    ("SELECT upper(str => js) AS a FROM O", "B3040", "upper(str => js)", "order"),
    ("SELECT mask(js, capital => 'q') AS a FROM O", "B3040", "mask(js, capital => 'q')", "upperChar"),
    ("SELECT sum(x ORDER BY y) AS a FROM O", "B3015", "", "array_agg"),
    ("SELECT array_agg(x ORDER BY y, id DESC) AS a FROM O", "B3015", "", "one direction"),
    ("SELECT percentile_disc(2) WITHIN GROUP (ORDER BY x) AS a FROM O", "B3015", "", "0.5"),
    ("SELECT DISTINCT ON (x) x FROM O", "B3040", "", "ORDER BY"),
    ("SELECT date_bin('1 hour', now(), now(), 4) AS a FROM O", "B3015", "", "origin"),
    ("SELECT date_bin(INTERVAL '1' MONTH, now()) AS a FROM O", "B5002", "", "MINUTES"),
    ("SELECT from_utc_timestamp(now(), 'Europe/Nowhere') AS a FROM O", "B3002", "", "Europe/Berlin"),
    ("SELECT * FROM O PIVOT (sum(id) FOR x IN (y))", "B3027", "", "IN (1, 2 AS two"),
    ("SELECT * FROM O UNPIVOT (v FOR n IN (x, m))", "B3002", "", "CAST"),
    ("SELECT id FROM O CLUSTER BY x LIMIT 3", "B3061", "x", "ORDER BY"),
    ("SELECT id FROM O WHERE id = row_number()", "B3036", "row_number()", "OVER"),
    ("SELECT sum(rank()) AS s FROM O", "B3036", "rank()", "OVER"),
    ("SELECT mode(DISTINCT x) AS m FROM O", "B3015", "", "remove it"),
    ("SELECT INTERVAL 'x' DAY AS i FROM O", "B1024", "'x'", "DAY TO SECOND"),
    ("SELECT id FROM O FOR UPDATE", "B3040", "", "locks nothing"),
    ("SELECT id INTO z FROM O", "B3040", "", "SELECT"),
    ("SELECT CAST(x AS STRING FORMAT 'y') AS d FROM O", "B3040", "'y'", "to_timestamp"),
    ("SELECT js COLLATE UTF8_LCASE AS c FROM O", "B3040", "", "lower(...)"),
    ("SELECT max(x HAVING MAX y) AS a FROM O", "B3040", "", "max_by"),
    ("SELECT id FROM O WHERE id BETWEEN SYMMETRIC 3 AND 1", "B3040", "", "least"),
    ("SELECT id FROM O CROSS APPLY explode(l) t", "B3040", "", "LATERAL"),
    ("SELECT id FROM O OUTER APPLY explode(l) t", "B3040", "", "LATERAL"),
    ("SELECT q FROM unnest(array(1), array(2)) AS t(q)", "B3040", "", "arrays_zip"),
    ("SELECT a.id FROM O a STRAIGHT_JOIN O b", "B3040", "", "JOIN"),
    ("SELECT a.id FROM O a RIGHT SEMI JOIN O b ON a.id = b.id", "B3026", "", "LEFT SEMI JOIN"),
    ("SELECT id FROM O UNION ALL BY NAME SELECT id, x FROM O", "B2002", "", "same columns"),
    ("SELECT id FROM O UNION ALL CORRESPONDING SELECT id FROM O", "B3040", "", "BY NAME"),
    ("SELECT id FROM O ORDER BY nosuch(id) LIMIT 3", "B3005", "nosuch(id)", "Spark SQL"),
    ("SELECT id FROM O ORDER BY m LIMIT 3", "B3002", "m", "to_json"),
    ("SELECT id, m FROM O UNION ALL SELECT id, m FROM O ORDER BY m LIMIT 3", "B3002", "m", "to_json"),
    ("SELECT count(*) OVER (PARTITION BY m) AS n FROM O", "B3002", "m", "map_entries"),
    ("SELECT a.id FROM O a JOIN O b ON a.m = b.m", "B3002", "a.m = b.m", ""),
    ("SELECT x, y, grouping_id(y, x) AS g FROM O GROUP BY ROLLUP (x, y)", "B3034", "", "without arguments"),
    ("SELECT m FROM O INTERSECT SELECT m FROM O", "B3053", "", "map_entries(m)"),
    ("SELECT m FROM O EXCEPT ALL SELECT m FROM O", "B3053", "", "map_entries(m)"),
    ("SELECT id FROM O ORDER BY rand() LIMIT 3", "B3006", "rand()", "now()"),
    ("SELECT id FROM O ORDER BY monotonically_increasing_id() LIMIT 3", "B3006", "monotonically_increasing_id()",
     "_uid"),
    ("SELECT id FROM O UNION ALL SELECT id FROM O ORDER BY uuid() LIMIT 3", "B3006", "uuid()", "_uid"),
    ("SELECT id FROM O ORDER BY size(shuffle(l)) LIMIT 3", "B3006", "shuffle(l)", "_uid"),
    ("SELECT id FROM O WHERE EXISTS (SELECT 1 FROM O p WHERE rand() > 0.5)", "B3006", "rand()", "now()"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "code", "place", "hint"), REFUSED, ids=[r[0] for r in REFUSED])
def test_a_clause_that_nobody_reads_is_refused(query: str, code: str, place: str, hint: str) -> None:
    text = f"{TABLE}V := {query};"
    found = [d for d in compile_script(text).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code], [(d.code, d.message) for d in found]
    span = found[0].span
    assert span is not None
    assert span.start >= len(TABLE)
    assert not place or text[span.start : span.end] == place
    assert hint in (found[0].hint or "")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE SUBSCRIPTION S ON ADD AS SELECT id FROM O ORDER BY rand() LIMIT 3",
        "D := DISTINCT O ON x ORDER BY rand()",
        "O.c := rand()",
        "O.c := SELECT id FROM O o ORDER BY uuid() LIMIT 3",
        "O.r := JOIN O o ON o.x = _.x ORDER BY rand() LIMIT 3",
        "Q(n INT) := SELECT id FROM O WHERE rand() > n",
        "SELECT id FROM O ORDER BY rand()",
    ],
)
def test_no_statement_takes_a_function_of_another_answer_each_time(statement: str) -> None:
    found = [d.code for d in compile_script(f"{TABLE}{statement};").diagnostics if d.severity == "error"]
    assert found == ["B3006"]
    assert not BY_KEY["Rand"].deterministic


READ_RIGHT = [
    "SELECT id, e FROM O LATERAL VIEW inline_outer(input => transform(l, x -> struct(x AS e))) AS e",
    "SELECT id, inline(input => transform(l, x -> struct(x AS e))) FROM O",
    "SELECT id, posexplode_outer(collection => l) FROM O",
    "TABLE O |> SET x = y, y = x + 1 |> DROP l, m |> AS p |> WHERE p.x > 1 |> EXTEND p.x + 1 AS z |> SELECT id, z |> "
    "LIMIT 3",
    "(SELECT id, x FROM O) |> AGGREGATE count(*) AS n GROUP BY x |> UNION ALL (SELECT x, id FROM O) |> ORDER BY n",
    "SELECT id FROM O SORT BY x",
    "SELECT id FROM O LIMIT 2 * 3",
    "SELECT initcap(js) AS a, sort_array(l) AS b, array_sort(l) AS c, sort_array(l, false) AS d FROM O",
    "SELECT id FROM O ORDER BY id FETCH FIRST 2 ROWS ONLY",
    "SELECT id FROM O ORDER BY id FETCH NEXT ROW ONLY",
    "(SELECT id FROM O) ORDER BY id LIMIT 2 OFFSET 1",
    "WITH t AS MATERIALIZED (SELECT id FROM O) SELECT id FROM t",
    "WITH t AS (SELECT id FROM O) (SELECT id FROM t)",
    "SELECT /*+ BROADCAST(O) */ ALL id FROM O",
    "SELECT id FROM O GROUP BY DISTINCT id",
    "SELECT id FROM O, LATERAL VIEW OUTER explode(l) t AS q",
    "SELECT * EXCEPT (m) FROM O",
    "SELECT m['a'] AS a, struct(1 AS a).a AS b, l[0] AS c, transform(l, e -> e + 1) AS d FROM O",
    "SELECT CASE x WHEN 1 THEN 2 END AS a, x::STRING AS b, js ILIKE 'a' AS c, js LIKE 'a' ESCAPE '/' AS d FROM O",
    "SELECT trim(BOTH 'a' FROM js) AS a, substring(js FROM 2 FOR 3) AS b, overlay(js PLACING 'x' FROM 2) AS c FROM O",
]


@pytest.mark.parametrize("query", READ_RIGHT)
def test_what_is_read_is_let_through(query: str) -> None:
    assert [d.message for d in compile_script(f"{TABLE}V := {query};").diagnostics if d.severity == "error"] == []


def test_there_is_one_clock() -> None:
    query = "SELECT current_date, curdate() AS b, localtimestamp() AS c, unix_timestamp() AS d, id FROM O"
    view = compile_script(f"{TABLE}V := {query};").catalog.views["V"]
    text = render(view.plan, str)
    assert "CURRENT" not in text
    assert "LOCALTIMESTAMP" not in text
    assert text.count("`_now`") >= 4
    assert view.plan.schema.visible[0].name == "current_date"
