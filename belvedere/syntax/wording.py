"""Wording for diagnostics and names of unnamed columns: the nearest name, and counts with nouns.

In: a word and the existing names. Out: the most similar name, or a hint for a diagnostic. Case is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from belvedere.errors import Span, counted, fail
from belvedere.schema import is_engine_column
from belvedere.spark_sql.dialect import SparkSql


def refuse_engine_columns(names: Iterable[str], span: Span | None, others: Iterable[str] = ()) -> None:
    """Raise B2012 for a column whose name is reserved for the engine, or for the input (`others`)."""
    own = {o.casefold() for o in others}
    for name in names:
        if is_engine_column(name) or name.casefold() in own:
            raise fail("B2012", f"a column cannot have the name `{name}`", span=span, hint="remove the underscore")


def distance(left: str, right: str, limit: int) -> int:
    """Return the number of edits (insert, delete, replace, swap of neighbours) between two words; `limit + 1` if there
    are more."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before_last: list[int] = []
    last = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        before_last, last = last, row
    return last[-1]


def text_name(expr: exp.Expr) -> str:
    """Return a column name derived from an expression: `max(temp)` is `max_temp`."""
    text = (
        re.sub(r"\W+", "_", expr.sql(SparkSql, unsupported_level=ErrorLevel.IGNORE).replace("`", "")).strip("_").lower()
    )
    return text[:60].strip("_") or "column"


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to `name`: at most a third of its letters differ, ignoring underscores. None if
    there is none."""
    folded = _fold(name)
    limit = max(1, len(folded) // 3)
    best: tuple[int, int] | None = None
    found = None
    for order, candidate in enumerate(candidates):
        edits = distance(folded, _fold(candidate), limit)
        if edits <= limit and (best is None or (edits, order) < best):
            best, found = (edits, order), candidate
    return found


def _fold(name: str) -> str:
    return name.casefold().replace("_", "")


def did_you_mean(name: str, candidates: Iterable[str], *, shown: int = 8) -> str | None:
    """Return a hint: `did you mean ...?` with the nearest name, else the existing names; None if there are none."""
    names = list(dict.fromkeys(candidates))
    nearest = nearest_name(name, names)
    if nearest is not None:
        return f"did you mean `{nearest}`?"
    if not names:
        return None
    listed = ", ".join(f"`{n}`" for n in names[:shown])
    return f"there is {listed}" + (f" and {len(names) - shown} more" if len(names) > shown else "")


def misfit(table: str, columns: Sized, names: Sized) -> str:
    """Return the message that the number of column names given for a table differs from its number of columns."""
    given = counted(len(names), "name")
    return f"`{table}` has {counted(len(columns), 'column')}, {given} {'is' if len(names) == 1 else 'are'} given"
