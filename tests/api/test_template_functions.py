"""Query templates compute the same at request time as Spark does for a view of the same query, on both stores."""

from __future__ import annotations

import random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench

TABLE = "CREATE TABLE T (id INT, k INT, p DECIMAL(10, 2), w DECIMAL(14, 3), s STRING, PRIMARY KEY (id));"
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SELECT k, avg(p) AS a, avg(w) AS b, sum(p) AS c, count(*) AS n FROM T WHERE id > :x GROUP BY k", {"x": 0}),
    ("SELECT avg(p) AS a FROM T WHERE id > :x", {"x": 999}),
    ("SELECT id FROM T WHERE s LIKE :x", {"x": "a%"}),
    ("SELECT id FROM T WHERE s LIKE :x", {"x": "%\\\\%%"}),
    ("SELECT id FROM T WHERE s LIKE :x", {"x": "_b"}),
    ("SELECT id FROM T WHERE s NOT LIKE :x", {"x": "%b"}),
    ("SELECT id FROM T WHERE s ILIKE :x", {"x": "%Ä%"}),
    ("SELECT id FROM T WHERE id > :x ORDER BY id DESC LIMIT :x", {"x": 5}),
    ("SELECT id FROM T ORDER BY k, id LIMIT :x", {"x": 7}),
    ("SELECT sum(id) AS n FROM (SELECT id FROM T ORDER BY id LIMIT :x) t", {"x": 4}),
    ("SELECT DISTINCT k FROM T ORDER BY k LIMIT :x", {"x": 2}),
    (
        "SELECT id, s || '-' || s AS a, concat(s, 'x') AS b, length(s) AS c, trim(s) AS d, ltrim(s) AS e, rtrim(s) AS "
        "f FROM T",
        {},
    ),
    (
        "SELECT id, nullif(k, 1) AS a, if(k > 1, s, 'none') AS b FROM T WHERE contains(s, :x) OR startswith(s, :x)",
        {"x": "b"},
    ),
)
TEXTS = ("ab", "Ab", "a%b", " b ", "ÄB", "xäy", "", "€😀", "aab", None)


def written(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def script() -> str:
    parts = [TABLE]
    for n, (query, values) in enumerate(CASES):
        literal = query
        for name, value in values.items():
            literal = literal.replace(f":{name}", written(value))
        kinds = ", ".join(f"{name} {'STRING' if isinstance(value, str) else 'INT'}" for name, value in values.items())
        parts += [f"V{n} := {literal};", f"Q{n}({kinds}) := {query};"]
    return "\n".join(parts)


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_they_answer_as_spark_does(spark: Any) -> None:
    assert [d for d in compile_script(script()).diagnostics if d.code == "B8020"] == []
    rng = random.Random(3)
    wb = Workbench(script(), spark=spark)
    rows = [
        {"id": n, "k": rng.randint(0, 3), "p": amount(rng, 8, 2), "w": amount(rng, 11, 3), "s": TEXTS[n % len(TEXTS)]}
        for n in range(1, 31)
    ]
    wb.insert("T", rows)
    wb.step()
    for n, (query, values) in enumerate(CASES):
        names = [c.name for c in wb.catalog.schema_of(f"V{n}").visible]
        given = ", ".join(f"{k}: {quoted(v)}" for k, v in values.items())
        answer = wb.graphql(
            f"{{ v{n} {{ {' '.join(names)} }} q{n}{f'({given})' if given else ''} {{ {' '.join(names)} }} }}"
        )
        assert "errors" not in answer, (query, answer)
        one, other = answer["data"][f"v{n}"], answer["data"][f"q{n}"]
        assert bag(one) == bag(other), query
        assert other or values.get("x") == 999, query
    wb.close()


def amount(rng: random.Random, digits: int, scale: int) -> str:
    return f"{rng.randint(-(10**digits), 10**digits)}.{rng.randrange(10**scale):0{scale}}"


def quoted(value: Any) -> str:
    if not isinstance(value, str):
        return str(value)
    return '"' + value.replace("\\\\", "\\").replace("\\", "\\\\") + '"'


def bag(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT id FROM T WHERE lower(s) = :x", "ILIKE"),
        ("SELECT t.id, u.v FROM T t CROSS JOIN UNNEST(array(s)) u(v) WHERE u.v = :x", "JOIN t.items i"),
        ("SELECT id FROM T WHERE substring(s, 0, 1) = :x", "in a view"),
    ],
)
def test_what_is_refused_says_what_to_write(query: str, hint: str) -> None:
    (found,) = (d for d in compile_script(f"{TABLE}\nQ(x STRING) := {query};").diagnostics if d.code == "B8020")
    assert found.span is not None
    assert hint in (found.hint or "")


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ("V := SELECT id FROM T LIMIT :n", "B3046"),
        ("Q(n STRING) := SELECT id FROM T LIMIT :n", "B3046"),
        ("Q(n INT) := SELECT id FROM T LIMIT :m", "B3004"),
        ("Q(n INT) := SELECT id FROM T LIMIT 3 OFFSET :n", "B3046"),
        ("T.r(n STRING) := JOIN T t ON t.k = _.k LIMIT :n", "B3046"),
        ("T.r(n INT) := SELECT * FROM T t WHERE t.k = this.k LIMIT :m", "B3004"),
    ],
)
def test_a_limit_is_a_declared_whole_number(definition: str, code: str) -> None:
    assert [d.code for d in compile_script(f"{TABLE}\n{definition};").diagnostics if d.severity == "error"] == [code]
