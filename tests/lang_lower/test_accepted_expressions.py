"""Each expression that is compared with Spark is accepted by the compiler, which needs no Spark to say so."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script
from belvedere.errors import Severity

from .spark_queries import AGGREGATES, EXPRESSIONS, TABLES


@pytest.mark.parametrize("expressions", [EXPRESSIONS, AGGREGATES], ids=["expressions", "aggregates"])
def test_each_is_accepted(expressions: list[str]) -> None:
    lines = [f"SELECT {e} AS v FROM a CROSS JOIN (SELECT y, e, day FROM b) CROSS JOIN c;" for e in expressions]
    diagnostics = compile_script("\n".join([TABLES, *lines])).diagnostics
    assert [d.message for d in diagnostics if d.severity is Severity.ERROR] == []
