"""What functions take: what is refused before a run Spark would refuse in it, under a CAST and without."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.functions.argument_types import TAKEN
from belvedere.functions.function_table import ARITY
from belvedere.functions.untyped import COUNTED
from tests.depth import at_night

TABLE = """CREATE TABLE T (id INT, s STRING, ts TIMESTAMP, y BINARY, m MAP<STRING, INT>, a ARRAY<INT>, f ARRAY<FLOAT>,
    r STRUCT<q: INT>,
                PRIMARY KEY (id));
"""
COLUMNS = (
    "CAST(1 AS INT) AS id, 'a' AS s, timestamp'2024-01-01' AS ts, x'00' AS y, map('a', 1) AS m, array(1) AS a, "
    "struct(1 AS q) AS r"
)
FITTING = {
    "t": "ts",
    "i": "id",
    "x": "s",
    "k": "s",
    "a": "s",
    "n": "id",
    "b": "y",
    "l": "a",
    "m": "m",
    "c": "m",
    "s": "r",
    "d": "id",
    "w": "id",
    "v": "id",
    "j": "id",
    "z": "s",
    "q": "a",
    ".": "s",
}
OTHER = {
    "t": "id",
    "i": "ts",
    "x": "id",
    "k": "m",
    "a": "m",
    "n": "ts",
    "b": "id",
    "l": "s",
    "m": "s",
    "c": "s",
    "s": "id",
}
OTHER |= {"d": "ts", "w": "s", "v": "s", "j": "s", "z": "id", "q": "m"}
"""A column that fits a class of types, and one that does not."""


@pytest.mark.parametrize(
    ("call", "types"),
    [
        ("CAST(luhn_check(a) AS BOOLEAN)", "ARRAY<INT>"),
        ("CAST(parse_url(s, m) AS INT)", "STRING, MAP<STRING, INT>"),
        ("CAST(bitmap_bit_position(ts) AS INT)", "TIMESTAMP"),
        ("CAST(vector_norm(s) AS DOUBLE)", "STRING"),
        ("CAST(is_valid_variant(m) AS BOOLEAN)", "MAP<STRING, INT>"),
        ("CAST(contains(s, a) AS STRING)", "STRING, ARRAY<INT>"),
        ("array_contains(s, 1)", "STRING, INT"),
        ("lpad(s, m)", "STRING, MAP<STRING, INT>"),
        ("size(id)", "INT"),
        ("collation(id)", "INT"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: str, types: str) -> None:
    (found,) = [
        d for d in compile_script(f"{TABLE}V := SELECT {call} AS x FROM T;").diagnostics if d.severity == "error"
    ]
    assert (found.code, found.message.partition("(")[2]) == ("B3002", f"{types})")
    assert found.hint == "CAST the arguments"


def test_arguments_that_fit_are_taken() -> None:
    calls = (
        "CAST(luhn_check(id) AS BOOLEAN)", "CAST(from_csv(s, 'a INT', map('sep', ';')) AS STRING)",
        "CAST(xpath(s, NULL) AS STRING)",
        "CAST(string(ts) AS STRING)",
        "CAST(aes_decrypt(s, y, 'ECB') AS STRING)", "CAST(convert_timezone('UTC', s, ts) AS TIMESTAMP_NTZ)",
        "CAST(to_xml(r) AS STRING)",
        "CAST(vector_norm(f, 2.0) AS DOUBLE)", "array_join(array(s), ',')", "size(m)", "array_contains(a, 1)",
        "reverse(a)", "concat(a, a)",
        "CAST(kll_sketch_get_rank_bigint(y, id) AS DOUBLE)", "slice(a, 1, 2)", "substring(y, 1, 2)",
        "map_contains_key(m, s)",
    )  # fmt: skip
    compiled = compile_script(TABLE + "".join(f"V{i} := SELECT {call} AS x FROM T;\n" for i, call in enumerate(calls)))
    assert compiled.ok, compiled.diagnostics


@pytest.mark.spark
@pytest.mark.parametrize("part", [0, *at_night(range(1, 12))])
def test_spark_refuses_what_is_refused(spark: Any, part: int) -> None:
    from pyspark.errors import AnalysisException

    rows = spark.sql(f"SELECT {COLUMNS}, array(CAST(1 AS FLOAT)) AS f")
    accepted = []
    for name in sorted(TAKEN)[part::12]:
        form = TAKEN[name]
        least, most = COUNTED.get(name) or ARITY[name]
        for place in range(min(max(least, len(form)), most)):
            classes = [form[min(i, len(form) - 1)] for i in range(max(least, place + 1))]
            if classes[place] == ".":
                continue
            arguments = [OTHER[c] if i == place else FITTING[c] for i, c in enumerate(classes)]
            call = f"{name}({', '.join(arguments)})"
            try:
                assert rows.selectExpr(call) is not None
                accepted.append(call)
            except AnalysisException:
                continue
    assert accepted == []


def test_averages_of_regressions_have_the_type_of_the_average() -> None:
    query = "SELECT regr_avgy(d, i) AS y, regr_avgx(i, d) AS x, regr_avgy(i, d) AS n, regr_slope(d, d) AS s FROM T"
    script = f"CREATE TABLE T (i INT, d DECIMAL(10,2), PRIMARY KEY (i));\nV := {query};"
    schema = compile_script(script).catalog.views["V"].plan.schema
    assert [str(schema[name].type) for name in "yxns"] == ["decimal128(14, 6)", "decimal128(14, 6)", "double", "double"]
