"""What functions take: arguments are refused before a run, under a CAST that says a function's type and without."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script

TABLE = """CREATE TABLE T (id INT, s STRING, ts TIMESTAMP, y BINARY, m MAP<STRING, INT>, a ARRAY<INT>, f ARRAY<FLOAT>, r STRUCT<q: INT>,
                PRIMARY KEY (id));
"""


@pytest.mark.parametrize(
    ("call", "types"),
    [
        ("CAST(luhn_check(a) AS BOOLEAN)", "ARRAY<INT>"),
        ("CAST(xpath_int(s, m) AS INT)", "STRING, MAP<STRING, INT>"),
        ("CAST(bitmap_bit_position(ts) AS INT)", "TIMESTAMP"),
        ("CAST(vector_norm(s) AS DOUBLE)", "STRING"),
        ("CAST(is_valid_variant(m) AS BOOLEAN)", "MAP<STRING, INT>"),
        ("CAST(contains(s, a) AS STRING)", "STRING, ARRAY<INT>"),
        ("array_contains(s, 1)", "STRING, INT"),
        ("lpad(s, m)", "STRING, MAP<STRING, INT>"),
        ("size(id)", "INT"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: str, types: str) -> None:
    (found,) = [d for d in compile_script(f"{TABLE}V := SELECT {call} AS x FROM T;").diagnostics if d.severity == "error"]
    assert (found.code, found.message.partition("(")[2]) == ("B3002", f"{types})")
    assert found.hint == "CAST the arguments"


def test_arguments_that_fit_are_taken() -> None:
    calls = (
        "CAST(luhn_check(id) AS BOOLEAN)", "CAST(from_csv(s, 'a INT', map('sep', ';')) AS STRING)", "CAST(xpath(s, NULL) AS STRING)",
        "CAST(string(ts) AS STRING)",
        "CAST(aes_decrypt(s, y, 'ECB') AS STRING)", "CAST(convert_timezone('UTC', s, ts) AS TIMESTAMP_NTZ)", "CAST(to_xml(r) AS STRING)",
        "CAST(vector_norm(f, 2.0) AS DOUBLE)", "array_join(array(s), ',')", "size(m)", "array_contains(a, 1)", "reverse(a)", "concat(a, a)",
        "CAST(kll_sketch_get_rank_bigint(y, id) AS DOUBLE)", "slice(a, 1, 2)", "substring(y, 1, 2)", "map_contains_key(m, s)",
    )  # fmt: skip
    compiled = compile_script(TABLE + "".join(f"V{i} := SELECT {call} AS x FROM T;\n" for i, call in enumerate(calls)))
    assert compiled.ok, compiled.diagnostics
