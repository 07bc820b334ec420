"""Random queries as text over the tables of `spark_queries`: none may end in a traceback or an invalid Spark plan."""

from __future__ import annotations

from hypothesis import strategies as st

NUMBERS = ["a.id", "a.x", "a.d", "a.f", "b.id", "b.y", "b.e"]
TEXTS = ["a.k", "b.k"]


@st.composite
def number(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*NUMBERS, "1", "2.5", "7"]))
    left, right = draw(number(depth - 1)), draw(number(depth - 1))
    form = draw(
        st.sampled_from(
            [
                "({} + {})",
                "({} - {})",
                "({} * {})",
                "coalesce({}, {})",
                "greatest({}, {})",
                "CASE WHEN {} > {} THEN 1 ELSE 2.5 END",
                "if({} = {}, 1, NULL)",
            ]
        )
    )
    return form.format(left, right)


@st.composite
def condition(draw: st.DrawFn, depth: int = 2) -> str:
    if depth and draw(st.booleans()):
        left, right = draw(condition(depth - 1)), draw(condition(depth - 1))
        return draw(st.sampled_from(["({} AND {})", "({} OR {})", "(NOT {} OR {})"])).format(left, right)
    simple = [
        f"{draw(number(1))} {draw(st.sampled_from(['=', '<', '>=', '<>', '<=>']))} {draw(number(1))}",
        f"{draw(st.sampled_from(NUMBERS))} IS {draw(st.sampled_from(['', 'NOT ']))}NULL",
        f"{draw(st.sampled_from(TEXTS))} LIKE 'p%'",
        f"{draw(st.sampled_from(NUMBERS))} IN (1, 3, 7)",
        f"{draw(st.sampled_from(NUMBERS))} BETWEEN 1 AND {draw(number(1))}",
        f"a.x {draw(st.sampled_from(['', 'NOT ']))}IN (SELECT n FROM c WHERE n > {draw(st.integers(0, 4))})",
        f"{draw(st.sampled_from(['', 'NOT ']))}EXISTS (SELECT 1 FROM c WHERE c.n = a.id)",
        f"a.x > (SELECT {draw(st.sampled_from(['max', 'min', 'count', 'sum']))}(n) FROM c WHERE c.n = b.id)",
        "a.x < (SELECT avg(n) FROM c)",
    ]
    return draw(st.sampled_from(simple))


@st.composite
def query(draw: st.DrawFn) -> str:
    join = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    source = f"FROM a {join} b ON a.{draw(st.sampled_from(['id', 'x']))} = b.id"
    where = f" WHERE {draw(condition())}" if draw(st.booleans()) else ""
    if draw(st.booleans()):
        key = draw(st.sampled_from(["a.k", "a.x", "b.k", "upper(a.k)", "a.id % 2"]))
        function = draw(st.sampled_from(["sum", "max", "min", "avg", "count"]))
        having = f" HAVING {function}({draw(st.sampled_from(NUMBERS))}) > 1" if draw(st.booleans()) else ""
        return (
            f"SELECT {key} AS g, {function}({draw(number(1))}) AS v, count(*) AS n {source}{where} GROUP BY "
            f"{key}{having}"
        )
    distinct = draw(st.sampled_from(["", "DISTINCT "]))
    text = f"SELECT {distinct}{draw(number())} AS p, {draw(st.sampled_from(TEXTS))} AS q, a.id AS r {source}{where}"
    if draw(st.integers(0, 3)) == 0:
        text += " ORDER BY p DESC, q, r LIMIT 3"
    elif draw(st.integers(0, 3)) == 0:
        text = (
            f"({text}) {draw(st.sampled_from(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT']))} (SELECT y, k, id FROM b)"
        )
    return text
