"""WINDOW BY as its rules say it, in plain Python: the oracle of the tests.

It shares nothing with the product: a predicate is a little tree of its own (made by `random_queries`), a missing tuple
is None, and an unknown truth is None. Windows are found by trying every tuple.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Tree = tuple[Any, ...]


@dataclass(frozen=True)
class Framing:
    """A query's framing. A boundary is a predicate tree, "unbounded", or None where it is left out (LABEL, or END of
    TUMBLING)."""

    tumbling: bool
    label: Tree | None
    start: Tree | str
    end: Tree | str | None
    only: bool = False


@dataclass(frozen=True)
class Window:
    label: int
    start: int | None
    end: int | None
    first: int
    last: int


def term(tree: Tree, rows: Sequence[Row], places: dict[str, int | None]) -> Any:
    """The value of a term; None for NULL and MISSING."""
    kind = tree[0]
    if kind == "const":
        return tree[1]
    if kind == "pos":
        place = places.get(tree[1])
        return None if place is None else place + 1
    if kind == "field":
        row = tuple_at(rows, places.get(tree[1]), tree[2])
        return None if row is None else row[tree[3]]
    if kind == "running":
        first, last = places["first"], places["end"]
        assert first is not None
        assert last is not None
        return aggregated(tree[1], [1 if tree[2] == "*" else r[tree[2]] for r in rows[first : last + 1]])
    left, right = term(tree[1], rows, places), term(tree[2], rows, places)
    if left is None or right is None:
        return None
    return left + right if kind == "add" else left - right


def aggregated(function: str, members: Sequence[Any]) -> Any:
    """An aggregate of the members that are not NULL, one after another."""
    known = [m for m in members if m is not None]
    if function == "COUNT":
        return len(known)
    if not known:
        return None
    if function in ("MIN", "MAX"):
        return min(known) if function == "MIN" else max(known)
    total = known[0]
    for value in known[1:]:
        total += value
    return total if function == "SUM" else total / len(known)


def tuple_at(rows: Sequence[Row], place: int | None, role: str) -> Row | None:
    if place is None:
        return None
    index = place + {"item": 0, "previous": -1, "next": 1}[role]
    return rows[index] if 0 <= index < len(rows) else None


def holds(tree: Tree, rows: Sequence[Row], places: dict[str, int | None]) -> bool | None:
    """TRUE, FALSE or unknown."""
    kind = tree[0]
    if kind == "true":
        return True
    if kind == "missing":
        return tuple_at(rows, places.get(tree[1]), tree[2]) is None
    if kind == "not":
        inner = holds(tree[1], rows, places)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        sides = [holds(t, rows, places) for t in tree[1:]]
        dominant = kind == "or"
        if dominant in sides:
            return dominant
        return None if None in sides else not dominant
    left, right = term(tree[2], rows, places), term(tree[3], rows, places)
    if left is None or right is None:
        return None
    return bool(
        {
            "=": left == right,
            "<>": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[tree[1]]
    )


def end_from(framing: Framing, rows: Sequence[Row], places: dict[str, int | None], begin: int) -> int | None:
    if framing.end == "unbounded":
        return len(rows) - 1
    for j in range(begin, len(rows)):
        if holds(framing.end, rows, {**places, "first": begin, "end": j}) is True:  # type: ignore[arg-type]
            return j
    return None


def windows(rows: Sequence[Row], framing: Framing) -> list[Window]:
    """The windows of one sorted partition."""
    n = len(rows)
    found: list[Window] = []

    def starts(i: int) -> bool:
        return i == 0 if framing.start == "unbounded" else holds(framing.start, rows, {"start": i}) is True  # type: ignore[arg-type]

    if framing.label is not None:
        for label in range(n):
            if holds(framing.label, rows, {"label": label}) is not True:
                continue
            start: int | None = 0
            if framing.start != "unbounded":
                tries = (i for i in range(n) if holds(framing.start, rows, {"label": label, "start": i}) is True)  # type: ignore[arg-type]
                start = next(tries, None)
            first = 0 if start is None else start
            end = end_from(framing, rows, {"label": label, "start": start}, first)
            found.append(Window(label, start, end, first, n - 1 if end is None else end))
        if framing.tumbling:
            kept: list[Window] = []
            for window in sorted(found, key=lambda w: (w.first, w.label)):
                if not kept or window.first > kept[-1].last:
                    kept.append(window)
            found = sorted(kept, key=lambda w: w.label)
    elif framing.tumbling:
        i = 0
        while i < n:
            if starts(i):
                if framing.end is None:
                    end = next((j for j in range(i + 1, n) if starts(j)), n) - 1
                else:
                    end = end_from(framing, rows, {"start": i}, i)  # type: ignore[assignment]
                found.append(Window(i, i, end, i, n - 1 if end is None else end))
                i = found[-1].last
            i += 1
    else:
        for i in range(n):
            if starts(i):
                end = end_from(framing, rows, {"start": i}, i)  # type: ignore[assignment]
                found.append(Window(i, i, end, i, n - 1 if end is None else end))
    return [w for w in found if w.end is not None] if framing.only else found


def partitions(rows: Sequence[Row]) -> list[list[Row]]:
    """By `k`, each in the order of `o` (NULLs first)."""
    keys = sorted({r["k"] for r in rows})
    return [sorted((r for r in rows if r["k"] == k), key=lambda r: (r["o"] is not None, r["o"] or 0)) for k in keys]


def answer(rows: Sequence[Row], framing: Framing) -> list[Row]:
    """What the test's SELECT gives (see `random_queries.text_of`)."""
    results = []
    for part in partitions(rows):
        for w in windows(part, framing):
            members = part[w.first : w.last + 1]
            unknown = (w.start is None) + (w.end is None)
            vs = [m["v"] for m in members if m["v"] is not None]
            xs = [m["x"] for m in members if m["x"] is not None]
            ss = [m["s"] for m in members if m["s"] is not None]
            strict = len(vs) == len(members) and not unknown
            results.append(
                {
                    "k": part[w.label]["k"],
                    "label": part[w.label]["id"] if framing.label is not None else None,
                    "start": None if w.start is None else part[w.start]["id"],
                    "at": None if w.start is None else w.start + 1,
                    "finish": None if w.end is None else part[w.end]["id"],
                    "after": None if w.end is None or w.end + 1 >= len(part) else part[w.end + 1]["v"],
                    "open": w.end is None,
                    "n": len(members) + unknown,
                    "ids": [None] * (w.start is None) + [m["id"] for m in members] + [None] * (w.end is None),
                    "total": sum(vs) if vs else None,
                    "strict": sum(vs) if strict else None,
                    "mean": statistics.fmean(xs) if xs else None,
                    "low": min(ss) if ss else None,
                    "high": max(vs) if vs else None,
                    "middle": float(statistics.median(vs)) if vs else None,
                    "kinds": len(set(vs)),
                    "spread": statistics.stdev(xs) if len(xs) > 1 else None,
                    "big": sum(v > 2 for v in vs),
                    "last": None if w.end is None else members[-1]["v"],
                }
            )
    return results
