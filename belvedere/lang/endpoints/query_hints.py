"""`/*+ query_by_all(a, b) */` and `/*+ query_by_any(a, b) */`: arguments of an endpoint, which are compared with
columns.

In: the hints of a script, and its catalog. Out: the arguments by relation, and diagnostics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import OnError, Placement, Promise, QueryArgument
from belvedere.errors import Diagnostic, Severity, Span
from belvedere.project.setting_rules import seconds_in
from belvedere.schema import Column
from belvedere.syntax.statement_tree import Hint
from belvedere.syntax.wording import did_you_mean

QUERY_BY = {"query_by_all": True, "query_by_any": False}
"""Hints, and whether their arguments are required."""


PLACEMENTS = tuple(p.value for p in Placement)
"""Hints that set where a view is computed."""
ON_ERROR = "on_error"
"""Hint that sets the action when a view fails."""
RESUME = "resume"
"""Hint with which a corrected view continues from the rows of its former definition."""
PROMISES = ("rate", "latency")
"""Hints for the expected number of requests per second, and the maximum duration of one."""

_BY_SIZE = "remove it: Belvedere chooses the join from the numbers of rows"
_INDEXES = "remove it: indexes follow from views, relationships and query templates"
_PARALLEL = "remove it: set the number of tasks under `[spark]` in belvedere.toml"
INSTEAD = {
    "options": "set it in belvedere.toml, under `[sources.name]` or `[sinks.name]`",
    "state_ttl": "declare `WATERMARK FOR` the times of the inputs: watermarks free state and change no result. "
    "To forget rows write `WHERE ts + 7 DAY >= now()`",
    "ttl": "write `KEEP 7 DAYS` after an input, or `WHERE ts + 7 DAY >= now()` in a view",
    "cache": "leave it out: an answer is read from the store, as of its last epoch",
    "lookup": "write JOIN, or JOIN ... FOR SYSTEM_TIME AS OF for the version of a time",
    "primary_key": "remove it: the key follows from the query, as from GROUP BY or DISTINCT ON",
    "test": "write a scenario for `belvedere test`",
    **dict.fromkeys(("index", "partition_key"), _INDEXES),
    **dict.fromkeys(("exec", "engine"), "remove it: Spark maintains every view, and the store serves it"),
    **dict.fromkeys(("broadcast", "broadcastjoin", "mapjoin", "merge", "mergejoin", "shuffle_merge"), _BY_SIZE),
    **dict.fromkeys(("shuffle_hash", "shuffle_replicate_nl", "nest_loop"), _BY_SIZE),
    **dict.fromkeys(("coalesce", "repartition", "repartition_by_range", "rebalance"), _PARALLEL),
}
"""Replacements for hints of DataSQRL, Flink SQL and Spark."""
_CHOSEN = "indexes and parts are chosen from the queries"
BECAUSE = {
    "primary_key": "the key follows from the query",
    "ttl": "rows leave by a condition on time, or by KEEP",
    "cache": "each answer is of the last epoch",
    "test": "tests are scenarios",
    **dict.fromkeys(("index", "partition_key"), _CHOSEN),
    **dict.fromkeys(("exec", "engine"), "there is one engine"),
}
"""Reasons why hints of DataSQRL have no effect."""


def idle_hint(hint: Hint, name: str | None, file: str) -> Diagnostic:
    """Return the notice that a hint has no effect at its position."""
    word = hint.name.casefold()
    if word in BECAUSE:
        on = "" if name is None else f" on `{name}`"
        message = f"the hint `{hint.name}` has no effect{on}, because {BECAUSE[word]}"
    else:
        message = f"there is no hint `{hint.name}` " + ("here" if name is None else f"for `{name}`")
    words = (
        "`no_query`, `query_by_all(a, b)`, `query_by_any(a, b)`, `maintain`, `at_read`, `on_error(null)`, `resume`, "
        "`rate(200)`, `latency(20 ms)`"
    )
    known = f"before a table or view use {words}; remove other hints"
    return Diagnostic(
        "B4033", message, Severity.NOTICE, Span(file, hint.start, hint.end), hint=INSTEAD.get(word, known)
    )


def query_arguments(
    catalog: Catalog, hints: Mapping[tuple[str, str], Hint], file: str
) -> tuple[dict[str, tuple[QueryArgument, ...]], list[Diagnostic]]:
    """Return the arguments that hints give to endpoints, by relation, and diagnostics. Required arguments come
    first."""
    found: dict[str, dict[str, QueryArgument]] = {}
    reported: list[Diagnostic] = []
    for (name, word), hint in sorted(hints.items(), key=lambda item: (not QUERY_BY[item[0][1]], item[1].start)):
        relation = catalog.find(name)
        if relation is None:  # its definition was rejected
            continue
        if relation not in catalog.public or relation in catalog.unlisted:
            reported.append(idle_hint(hint, catalog.name_of(relation), file))
            continue
        columns = [_column(catalog, relation, requested, hint, file, reported) for requested in hint.arguments]
        if not columns:
            reported.append(
                _refused("B4036", f"`{hint.name}` names no column", hint, file, f"write `{hint.name}(column, ...)`")
            )
        arguments = found.setdefault(relation, {})
        for column in columns:
            if column is not None:
                arguments.setdefault(column.name, QueryArgument(column.name, QUERY_BY[word]))
    return {relation: tuple(arguments.values()) for relation, arguments in found.items()}, reported


def placements(
    catalog: Catalog, hints: Mapping[str, Sequence[Hint]], file: str
) -> tuple[dict[str, Placement], list[Diagnostic]]:
    """Return the placement of views with hints, by id. Both hints on one view are rejected (B4039)."""
    found: dict[str, Placement] = {}
    reported: list[Diagnostic] = []
    for name, said in hints.items():
        id_ = catalog.find(name)
        words = {h.name.casefold() for h in said}
        if id_ is None:  # its definition was rejected
            continue
        if id_ not in catalog.views or id_ not in catalog.public:
            reported += (idle_hint(h, catalog.name_of(id_), file) for h in said)
        elif len(words) > 1:
            message = f"`{catalog.name_of(id_)}` cannot be both maintained and computed when it is read"
            reported.append(_refused("B4039", message, said[-1], file, "keep one of the hints"))
        else:
            found[id_] = Placement(words.pop())
    return found, reported


def policies(catalog: Catalog, hints: Mapping[str, Hint], file: str) -> tuple[dict[str, OnError], list[Diagnostic]]:
    """Return the action on failure of views, by id, for all versions of a name; an unknown word is rejected (B4035)."""
    found: dict[str, OnError] = {}
    reported: list[Diagnostic] = []
    for name, hint in hints.items():
        id_ = catalog.find(name)
        if id_ is None:  # its definition was rejected
            continue
        word = hint.arguments[0].casefold() if len(hint.arguments) == 1 else ""
        if id_ not in catalog.views:
            reported.append(idle_hint(hint, catalog.name_of(id_), file))
        elif word not in tuple(OnError):
            message = f"`{hint.name}` of `{catalog.name_of(id_)}` has arguments that cannot be read"
            reported.append(
                _refused(
                    "B4035", message, hint, file, "write `on_error(stop)`, `on_error(null)` or `on_error(quarantine)`"
                )
            )
        else:
            base = id_.partition("~")[0]
            found |= {i: OnError(word) for i in catalog.views if i.partition("~")[0] == base}
    return found, reported


def resumed_views(catalog: Catalog, hints: Mapping[str, Hint], file: str) -> tuple[frozenset[str], list[Diagnostic]]:
    """Return the ids of views that continue from the rows of their former definition, for all versions of a name."""
    found = {id_: hint for name, hint in hints.items() if (id_ := catalog.find(name)) is not None}
    names = {i.partition("~")[0] for i in found if i in catalog.views}
    idle = [idle_hint(h, catalog.name_of(i), file) for i, h in found.items() if i not in catalog.views]
    return frozenset(i for i in catalog.views if i.partition("~")[0] in names), idle


def promises(
    catalog: Catalog, hints: Mapping[tuple[str, str], Hint], file: str
) -> tuple[dict[str, Promise], list[Diagnostic]]:
    """Return the rates and latencies of views and query templates; invalid ones are rejected (B4035)."""
    found: dict[str, Promise] = {}
    reported: list[Diagnostic] = []
    for (name, word), hint in hints.items():
        id_ = name if name in catalog.templates else catalog.find(name)
        if id_ is None:  # its definition was rejected
            continue
        if id_ not in catalog.templates and id_ not in catalog.public & catalog.views.keys():
            reported.append(idle_hint(hint, catalog.name_of(id_), file))
            continue
        value = _promised(word, hint.arguments)
        if value is None:
            requested = "a number of requests a second: `rate(200)`" if word == "rate" else "a time: `latency(20 ms)`"
            reported.append(
                _refused(
                    "B4035",
                    f"`{word}` of `{name}` has an argument that cannot be read",
                    hint,
                    file,
                    f"write {requested}",
                )
            )
            continue
        known = found.get(id_, Promise())
        found[id_] = replace(known, rate=value) if word == "rate" else replace(known, latency=value)
    return found, reported


def _promised(word: str, arguments: tuple[str, ...]) -> float | None:
    """Return requests per second, or seconds; None if the arguments are invalid."""
    text = arguments[0] if len(arguments) == 1 else ""
    if word == "latency":
        return seconds_in(text)
    found = re.fullmatch(r"\d+(\.\d+)?", text)
    return float(text) if found and float(text) > 0 else None


def _column(
    catalog: Catalog, relation: str, requested: str, hint: Hint, file: str, reported: list[Diagnostic]
) -> Column | None:
    """Return the column that a hint names; errors are added to `reported`."""
    columns = [c for c in catalog.schema_of(relation).visible if not c.name.startswith("_")]
    column = next((c for c in columns if c.name.casefold() == requested.casefold()), None)
    name = catalog.name_of(relation)
    if column is None:
        reported.append(
            _refused(
                "B4036",
                f"`{name}` has no column `{requested}`",
                hint,
                file,
                did_you_mean(requested, [c.name for c in columns]),
            )
        )
    elif pa.types.is_nested(column.type) or pa.types.is_interval(column.type):
        message = f"`{column.name}` of `{name}` cannot be an argument: it is not a single value"
        reported.append(_refused("B4036", message, hint, file, "name a column of a number, text, time or boolean"))
        return None
    return column


def _refused(code: str, message: str, hint: Hint, file: str, help_: str | None) -> Diagnostic:
    return Diagnostic(code, message, span=Span(file, hint.start, hint.end), hint=help_)
