"""Turn a failure inside Spark into a diagnostic that names the view, the expression and what to do.

In: an exception raised while a stage ran. Out: a BelvedereError, or the exception itself where it is no fault of a view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from belvedere.catalog import Catalog
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.spark.exchange import Exchange
from belvedere.spark.failing_row import describe_failing_row
from belvedere.spark.prepare import PreparedStage

CONDITION = re.compile(r"\[([A-Z_]+)(?:\.[A-Z_]+)*\]\s*(.*?)(?:\s*SQLSTATE: \w+|$)", re.S)
HINTS = {
    "DIVIDE_BY_ZERO": "write try_divide(a, b), or nullif(b, 0) as the divisor",
    "REMAINDER_BY_ZERO": "write try_mod(a, b), or nullif(b, 0) as the divisor",
    "ARITHMETIC_OVERFLOW": "cast an operand to a wider type, or use try_add, try_multiply, ...",
    "CAST_OVERFLOW": "cast to a wider type, or use try_cast",
    "CAST_INVALID_INPUT": "use try_cast to get NULL for text that cannot be read",
    "NUMERIC_VALUE_OUT_OF_RANGE": "cast to a decimal with more digits",
    "INVALID_ARRAY_INDEX": "use get(array, index) to get NULL outside the array",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "use try_element_at to get NULL outside the array",
}


@contextmanager
def explain_failure(prepared: PreparedStage, catalog: Catalog, exchange: Exchange) -> Iterator[None]:
    """Run a stage; what Spark raises comes out as a diagnostic about the stage's view, with the row where one is to blame."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise BelvedereError(_diagnose(error, prepared, catalog, exchange)) from error


def _diagnose(error: Exception, prepared: PreparedStage, catalog: Catalog, exchange: Exchange) -> Diagnostic:
    owner = prepared.stage.owner
    view = catalog.views.get(owner)
    kind = "view" if view is not None else "input"
    text = str(error)
    found = CONDITION.search(text)
    condition = found.group(1) if found else type(error).__name__
    message = " ".join((found.group(2) if found else text.splitlines()[0]).split())
    expression = re.search(r"^(?:== SQL|.*fragment:).*?\n(.*?)\n\s*\^+", text, re.S | re.M)
    row = describe_failing_row(prepared, exchange) if condition in HINTS else None
    return Diagnostic(
        "B7040",
        f'{kind} "{owner}" failed: {condition.lower().replace("_", " ")}',
        span=view.span if view is not None else None,
        detail=message + (f"; at {expression.group(1).strip()}" if expression else "") + (f"; {row}" if row else ""),
        hint=HINTS.get(condition, "nothing of this epoch was kept: the store is at the last good epoch"),
    )
