"""Turns a failure inside Spark into a diagnostic with the view, the expression and a remedy.

In: an exception raised while a stage ran. Out: a BelvedereError, or the exception itself if no view is at fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from belvedere.catalog.catalog import Catalog
from belvedere.engine.errors.quarantine import StageFailure
from belvedere.engine.fixpoint import ENDLESS
from belvedere.engine.relation import name_in_script
from belvedere.engine.sql.stage_sql import PreparedStage
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.process.temporary_folders import full_folder
from belvedere.spark.failing_row import QueriedViews, describe_failing_row

CONDITION = re.compile(r"\[([A-Z_]+)(?:\.[A-Z_]+)*\]\s*(.*?)(?:\s*SQLSTATE: \w+|$)", re.S)
HINTS = {
    "DIVIDE_BY_ZERO": "write try_divide(a, b), or nullif(b, 0) as the divisor",
    "REMAINDER_BY_ZERO": "write try_mod(a, b), or nullif(b, 0) as the divisor",
    "ARITHMETIC_OVERFLOW": "cast an operand to a wider type, or use try_add, try_multiply, ...",
    "CAST_OVERFLOW": "cast to a wider type, or use try_cast",
    "CAST_INVALID_INPUT": "use try_cast to get NULL for text that cannot be read",
    "NUMERIC_VALUE_OUT_OF_RANGE": "cast to a decimal with more digits",
    "CANNOT_PARSE_TIMESTAMP": "use try_to_timestamp to get NULL for text that cannot be read",
    "CANNOT_PARSE_DATE": "use try_to_date to get NULL for text that cannot be read",
    "DATETIME_FIELD_OUT_OF_BOUNDS": "check the parts of the date first, or use try_cast on the text",
    "DATETIME_OVERFLOW": "check the interval before it is added",
    "INTERVAL_ARITHMETIC_OVERFLOW": "check the values before the interval is computed",
    "DUPLICATED_MAP_KEY": "use each key of a map once",
    "NULL_MAP_KEY": "remove NULL from the map's keys",
    "INVALID_PARAMETER_VALUE": "check the argument first",
    "INVALID_ARRAY_INDEX": "use get(array, index) to get NULL outside the array",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "use try_element_at to get NULL outside the array",
}
ROOTS = {
    "PatternSyntaxException": ("invalid regular expression", "a pattern from a column must be valid in every row"),
    "DateTimeException": ("invalid time", "check the parts of the time first"),
    "ArithmeticException": ("arithmetic overflow", HINTS["ARITHMETIC_OVERFLOW"]),
    "IllegalArgumentException": ("invalid argument", "check the argument first"),
}
"""Failures of expressions to which Spark gives no error class: by the class of Java's exception, the description and a
remedy."""
PATTERN = "[INVALID_PARAMETER_VALUE.PATTERN]"
"""Spark's error class for such a failure if it interprets an expression instead of generating code for it."""
PASSING = ("MEMORY", "FAILED_READ", "FILE", "CANCEL", "ABORTED", "TASK_WRITE", "CONNECT", "INTERNAL")
"""Parts of names of failures that may be temporary."""
OVERFLOW = re.compile(r"^OverflowError: (.*)$", re.M)
"""Error of the kernels of WINDOW BY."""
OWN = re.compile(r"OwnFunctionError: (.*)$", re.M)
OWN_HINT = "correct the function, or check its arguments first; stored rows are unchanged"
WINDOW_HINTS = {"ARITHMETIC_OVERFLOW": "whole numbers have 64 bits: compute with TO_DOUBLE(value), or as DECIMAL"}
ADVICE = re.compile(
    r"\s*(?:Use `try_\w+` to [^.]*\.|If necessary set [^.]*(?:\.[^. ]+)* to [^.]* to bypass this error\.)"
)
"""Advice in Spark's messages. The hint replaces it, because Spark's settings do not apply to Belvedere."""
ROOT = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)+([A-Z]\w*Exception)(?:: (.*))?$", re.M)


@contextmanager
def explain_failure(prepared: PreparedStage, catalog: Catalog, views: QueriedViews) -> Iterator[None]:
    """Run a stage.

    Spark's errors are raised as diagnostics about the stage's view, with the row at fault if known.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if full := full_folder(error):
            raise full from error
        found = _diagnose(error, prepared, catalog, views)
        lasts = _lasts(str(error))
        raise (StageFailure(prepared.output.name, found) if lasts else BelvedereError(found)) from error
    except BelvedereError as error:
        if error.diagnostics[0].code != ENDLESS:
            raise
        raise StageFailure(prepared.output.name, _placed(error.diagnostics[0], prepared, catalog)) from error


def _placed(diagnostic: Diagnostic, prepared: PreparedStage, catalog: Catalog) -> Diagnostic:
    """Add the view to the diagnostic of a recursion that does not end."""
    owner = prepared.owner
    view = catalog.views.get(owner)
    if view is None:
        return diagnostic
    message = f'view "{catalog.name_of(owner)}" failed: {diagnostic.message}'
    return replace(diagnostic, message=message, reason=diagnostic.message, span=view.span)


@contextmanager
def explain_query_failure(hints: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run one query.

    Spark's errors are raised as diagnostics. `hints` by error name take precedence over the usual ones.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if full := full_folder(error):
            raise full from error
        condition, message, hint = _named(str(error), type(error).__name__)
        hint = (hints or {}).get(condition.upper().replace(" ", "_"), hint)
        raise BelvedereError(
            [Diagnostic("B7041", f"the query failed: {condition}", detail=message, hint=hint)]
        ) from error


def _lasts(text: str) -> bool:
    """Return whether the same rows would fail again: in an expression or a function, but not for lack of memory or
    machines."""
    if OWN.search(text) or OVERFLOW.search(text):
        return True
    found = CONDITION.search(text)
    if found:
        return not any(word in found.group(1) for word in PASSING)
    return any(r.group(1) in ROOTS for r in ROOT.finditer(text))


def _diagnose(error: Exception, prepared: PreparedStage, catalog: Catalog, views: QueriedViews) -> Diagnostic:
    owner = prepared.owner
    view = catalog.views.get(owner)
    kind = "view" if view is not None else "input"
    text = str(error)
    condition, message, hint = _named(text, type(error).__name__)
    expression = re.search(r"^(?:== SQL|.*fragment:).*?\n(.*?)\n\s*\^+", text, re.S | re.M)
    row = describe_failing_row(prepared, views) if hint is not None else None
    return Diagnostic(
        "B7040",
        f'{kind} "{name_in_script(owner)}" failed: {condition}',
        span=view.span if view is not None else None,
        detail=message + (f"; at {expression.group(1).strip()}" if expression else "") + (f"; {row}" if row else ""),
        hint=hint or "this epoch was rolled back: the store is at the last good epoch",
        reason=condition,
    )


def _named(text: str, kind: str) -> tuple[str, str, str | None]:
    """Return the error, in short and in Spark's words, and a hint if rows are the cause."""
    found = CONDITION.search(text)
    worker = OVERFLOW.search(text)
    own = OWN.search(text)
    if own:
        return "a function of the project", own.group(1), OWN_HINT
    if worker:
        return "arithmetic overflow", worker.group(1), WINDOW_HINTS["ARITHMETIC_OVERFLOW"]
    if found and found.group().startswith(PATTERN):
        return ROOTS["PatternSyntaxException"][0], " ".join(found.group(2).split()), ROOTS["PatternSyntaxException"][1]
    if found:
        name = found.group(1)
        message = " ".join(found.group(2).split())
        return name.lower().replace("_", " "), ADVICE.sub("", message) if name in HINTS else message, HINTS.get(name)
    roots = [r for r in ROOT.finditer(text) if r.group(1) in ROOTS]
    if roots:
        short, hint = ROOTS[roots[-1].group(1)]
        return short, roots[-1].group(2) or short, hint
    return kind.lower(), " ".join(text.splitlines()[0].split()), None
