"""Every argument that is written reaches Spark: of each function, with each number of arguments."""

from __future__ import annotations

import re

import pytest

from belvedere.functions.function_table import ARITY
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.parse import parse_script
from belvedere.syntax.statement_tree import DefineView
from tests.depth import at_night

MORE = 4
"""So many arguments beyond the least are tried."""
KINDS = ("arg{}", "'arg{}'", "70{}", "arg{} + 1")


def printed(call: str) -> str | None:
    """What Spark is given for a call; None where it is refused."""
    script = parse_script(f"V := SELECT {call} AS x FROM t;", "arguments.sqrl")
    if script.diagnostics:
        return None
    view = script.statements[0]
    assert isinstance(view, DefineView)
    return str(view.query.expressions[0].this.sql(dialect=SparkSql))


def lost(name: str, number: int, kind: str) -> str | None:
    arguments = [kind.format(n) for n in range(number)]
    text = printed(f"{name}({', '.join(arguments)})")
    marks = [re.sub(r"['+ ]|1$", "", kind).format(n) for n in range(number)]
    missing = [m for m in marks if text is not None and m.lower() not in text.lower()]
    return f"{name}({', '.join(arguments)}) -> {text}" if missing else None


FLAGS = {("first", 2), ("last", 2)}
"""Whose second argument is TRUE or FALSE: of another one the call is refused by its type, or it is IGNORE NULLS."""
NAMES = {"date_trunc", "named_struct"}
"""Whose first argument is a name: where it is none, they are refused when names are known."""


@pytest.mark.parametrize("kind", [KINDS[0], *at_night(KINDS[1:])])
def test_no_argument_is_lost(kind: str) -> None:
    calls = [(name, n) for name, (least, most) in ARITY.items() for n in range(least, min(most, least + MORE) + 1)]
    calls = [(name, n) for name, n in calls if (name, n) not in FLAGS and not (name in NAMES and kind == KINDS[3])]
    assert len(calls) > 600
    assert [found for name, n in calls if (found := lost(name, n, kind)) is not None] == []


PATTERNS = {
    "to_date(s, 'yyyy-MM-dd')": "TO_DATE(s, 'yyyy-MM-dd')",
    "to_date(s)": "TO_DATE(s)",
    "date_trunc('YEAR', to_date(s, 'yyyy-MM-dd')) = DATE '2001-01-01'": None,
    "dayofmonth(to_date(s, 'yyyy'))": "DAYOFMONTH(TO_DATE(s, 'yyyy'))",
    "to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')": "TO_TIMESTAMP(s, 'yyyy-MM-dd HH:mm:ss')",
    "to_timestamp(s, f)": "TO_TIMESTAMP(s, f)",
    "date_format(t, 'EEE, QQQ B %d')": "DATE_FORMAT(t, 'EEE, QQQ B %d')",
    "from_unixtime(n, 'yyyy-MM-dd HH:mm:ss')": "FROM_UNIXTIME(n, 'yyyy-MM-dd HH:mm:ss')",
    "from_unixtime(n)": "FROM_UNIXTIME(n)",
    "unix_timestamp(s, 'yyyy-MM-dd')": "UNIX_TIMESTAMP(s, 'yyyy-MM-dd')",
    "to_unix_timestamp(s, 'y')": "UNIX_TIMESTAMP(s, 'y')",
    "sha2(s, 256)": "SHA2(s, 256)",
    "split(s, ',', -1)": "SPLIT(s, ',', -1)",
    "trunc(d, 'MM')": "TRUNC(d, 'MM')",
    "str_to_map(s, ',', ':')": "STR_TO_MAP(s, ',', ':')",
}


@pytest.mark.parametrize("call", PATTERNS)
def test_patterns_and_defaults_stay_as_they_are_written(call: str) -> None:
    expected = PATTERNS[call]
    text = printed(call)
    assert text is not None
    assert text == expected if expected is not None else "TO_DATE(s, 'yyyy-MM-dd')" in text
