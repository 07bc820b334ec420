"""Comparison of two text tables: which rows are equal, and which cells of the others differ.

In: the expected and the actual lines. Out: lines of one table: `  ` before an equal row, `-` before an expected row,
`+` before an actual row. A line below such a pair has `^` under the cells that differ. Column widths are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from belvedere.scenarios.cells import BAR, read_cell, same_value

Row = tuple[str, ...]
TABLES = ("rows", "changes", "events")
"""Expectations in the form of tables."""


def marked(expected: Sequence[str], actual: Sequence[str], *, ordered: bool) -> list[str] | None:
    """Return the marked lines; None if the columns differ, or one side is not a table."""
    requested, found = _cells(expected), _cells(actual)
    if (
        not requested
        or not found
        or requested[0] != found[0]
        or any(len(r) != len(found[0]) for r in (*requested, *found))
    ):
        return None
    widths = [max(map(len, column)) for column in zip(*requested, *found, strict=True)]
    lines = ["  " + _line(found[0], widths)]
    for old, new in _paired(requested[1:], found[1:], ordered=ordered):
        if old is not None and new is not None and _alike(old, new) == len(new):
            lines.append("  " + _line(new, widths))
            continue
        lines += ["- " + _line(old, widths)] if old is not None else []
        lines += ["+ " + _line(new, widths)] if new is not None else []
        if old is not None and new is not None:
            marks = ["" if _same(a, b) else "^" * max(len(a), len(b)) for a, b in zip(old, new, strict=True)]
            lines.append("  " + "   ".join(m.ljust(w) for m, w in zip(marks, widths, strict=True)).rstrip())
    return lines


def _cells(lines: Sequence[str]) -> list[Row]:
    return [
        tuple(cell.strip() for cell in line.split(BAR)) for line in lines if line.strip() and not line.startswith("#")
    ]


def _line(row: Row, widths: Sequence[int]) -> str:
    return f" {BAR} ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _same(old: str, new: str) -> bool:
    return old == new or same_value(read_cell(old), read_cell(new))


def _alike(old: Row, new: Row) -> int:
    return sum(map(_same, old, new))


def _paired(requested: Sequence[Row], found: Sequence[Row], *, ordered: bool) -> list[tuple[Row | None, Row | None]]:
    """Return pairs of expected and actual rows: equal rows, then the most similar ones; if `ordered`, rows by
    position."""
    if ordered:
        length = max(len(requested), len(found))
        return [
            (requested[n] if n < len(requested) else None, found[n] if n < len(found) else None) for n in range(length)
        ]
    left = list(requested)
    pairs: dict[int, Row] = {}
    for least in range(len(found[0]) if found else 0, 0, -1):
        for n, new in enumerate(found):
            old = next((o for o in left if n not in pairs and _alike(o, new) == least), None)
            if old is not None:
                pairs[n] = old
                left.remove(old)
    return [*((pairs.get(n), new) for n, new in enumerate(found)), *((old, None) for old in left)]
