"""Provenance answers as JSON documents that name relations as the script does.

In: a `Why` or a `WhyNot`, and the columns that its reader may see. Out: dicts and lists, for `--json`, REST, agents and
the console.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.provenance.epoch_lookup import Moment
from belvedere.provenance.findings import FoundRows, PruningOperator, Since, Why, WhyNot, since_text
from belvedere.values.row_texts import value_text

Row = Mapping[str, Any]
Show = Callable[[str, Row], Row | None]
"""Function from a relation's id and a row to the part that the reader may see; None if nothing may be seen."""
_PRIVATE = re.compile(r"(?<!\w)_\w+")


def document(catalog: Catalog, answer: Why, show: Show) -> dict[str, Any]:
    """Return the document of a view's row and its input rows."""
    found: dict[str, Any] = {
        "view": catalog.name_of(answer.view),
        "sql": answer.sql,
        "row": _row(show(answer.view, answer.row)),
    }
    parts = {"reads": answer.reads, "dropped": answer.dropped, "late": answer.late, "inputs": answer.inputs}
    found |= {"epoch": answer.epoch} | {
        n: [read_document(catalog, r, show) for r in reads] for n, reads in parts.items()
    }
    return (
        found if answer.since is None else found | {"since": since_document(catalog, answer.view, answer.since, show)}
    )


def since_document(catalog: Catalog, view: str, found: Since, show: Show) -> dict[str, Any]:
    """Return the document on the age of a row: epochs with their clocks, and the versions of a history."""
    versions = [
        {
            "row": _row(show(view, v.row)),
            "since": _moment(v.since),
            "until": _moment(v.until),
            "made_by": [read_document(catalog, r, show) for r in v.made_by],
        }
        for v in found.versions
    ]
    return {
        "words": since_text(found),
        "appeared": _moment(found.appeared),
        "changed": _moment(found.changed),
        "exact": found.exact,
        "versions": versions,
        "count": found.count,
        "made_by": [read_document(catalog, r, show) for r in found.made_by],
        "unknown": list(found.unknown),
    }


def _moment(moment: Moment | None) -> dict[str, Any] | None:
    return None if moment is None else {"epoch": moment.epoch, "time": _plain(moment.time)}


def read_document(catalog: Catalog, read: FoundRows, show: Show) -> dict[str, Any]:
    """Return the document of found rows."""
    return {
        "relation": relation_name(catalog, read.relation),
        "how": read.words,
        "count": None if read.untold else read.count,
        "order": list(read.order),
        "rows": [_row(r) for r in rows_of(read, show)],
        **({"untold": read.untold} if read.untold else {}),
        **({"why": [document(catalog, w, show) for w in read.below]} if read.below else {}),
    }


def rows_of(read: FoundRows, show: Show) -> list[Row]:
    """Return the visible rows of a sample. Rows between operators require access to all relations that they derive
    from.

    Their columns are named by expressions. A reader sees an expression with a private column only if it sees the
    column.
    """
    if read.between:
        if any(show(i, {}) is None for i in read.between):
            return []
        private = {w for row in read.rows for n in row for w in _PRIVATE.findall(n)}
        unseen = {w for w in private if not any(show(i, {w: None}) for i in read.between)}
        return [{n: v for n, v in row.items() if unseen.isdisjoint(_PRIVATE.findall(n))} for row in read.rows]
    return [shown for row in read.rows if (shown := show(read.relation, row)) is not None]


def why_not_document(catalog: Catalog, answer: WhyNot, show: Show) -> dict[str, Any]:
    """Return the document on the operators that drop a missing row."""
    return {
        "view": catalog.name_of(answer.view),
        "sql": answer.sql,
        "condition": answer.condition,
        "epoch": answer.epoch,
        "there": answer.there,
        "lost": [_lost_document(catalog, lost, show) for lost in answer.lost],
    }


def _lost_document(catalog: Catalog, lost: PruningOperator, show: Show) -> dict[str, Any]:
    return {
        "view": relation_name(catalog, lost.view),
        "at": lost.at.value,
        "words": lost.words,
        "condition": lost.condition,
        "through": [relation_name(catalog, i) for i in lost.through],
        "steps": list(lost.steps),
        "near": [read_document(catalog, r, show) for r in lost.near],
        "unfollowed": list(lost.unfollowed),
    }


def _row(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {n: _plain(v) for n, v in row.items()}


def _plain(value: Any) -> Any:
    """Return a value as JSON; values that JSON cannot express become text."""
    if isinstance(value, dict):
        return {str(n): _plain(v) for n, v in value.items()}
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(v, tuple) for v in value)  # Arrow returns maps as pairs
        return _plain(dict(value)) if is_map else [_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value_text(value)


def relation_name(catalog: Catalog, id_: str) -> str:
    """Return the name of a relation as the script spells it; internal tables keep their own name."""
    return catalog.name_of(id_) if _is_known(catalog, id_) else id_


def _is_known(catalog: Catalog, id_: str) -> bool:
    return id_ in catalog.inputs or id_ in catalog.views or id_ in catalog.subscriptions


def visible(catalog: Catalog, id_: str, row: Row) -> Row:
    """Return a row without hidden columns; rows of internal tables keep all columns."""
    if not _is_known(catalog, id_):
        return row
    shown = {c.name for c in catalog.schema_of(id_).visible}
    return {n: v for n, v in row.items() if n in shown}
