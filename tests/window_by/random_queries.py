"""Random tables and framings for the tests, and their text as queries."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from tests.window_by.oracle import Framing, Tree

COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows with a partition `k`, an order `o` without ties, and values with NULLs."""
    size = draw(st.integers(0, 14))
    orders = draw(st.lists(st.integers(-5, 40), min_size=size, max_size=size, unique=True))
    rows: list[dict[str, Any]] = []
    for number, order in enumerate(orders):
        rows.append(
            {
                "id": number,
                "k": draw(st.integers(0, 2)),
                "o": order,
                "v": draw(st.none() | st.integers(0, 5)),
                "x": draw(st.none() | st.sampled_from([0.0, -0.5, 1.5, 2.25, 1e6])),
                "s": draw(st.none() | st.sampled_from(["", "a", "b", "é"])),
            }
        )
    if rows and draw(st.booleans()):
        rows[0]["o"] = None
    return rows


def whole(side: str) -> st.SearchStrategy[Tree]:
    """A term of whole numbers over one side."""
    roles = st.sampled_from(["item", "item", "previous", "next"])
    fields = st.builds(lambda r, f: ("field", side, r, f), roles, st.sampled_from(["v", "o", "v", "id"]))
    return fields | st.just(("pos", side))


def constant() -> st.SearchStrategy[Tree]:
    return st.integers(0, 6).map(lambda c: ("const", c))


@st.composite
def one_sided(draw: st.DrawFn, side: str) -> Tree:
    kind = draw(st.integers(0, 7))
    if kind == 6:
        name = draw(st.sampled_from(["x", "s", "v"]))
        other = draw(st.sampled_from(["previous", "next"]))
        return ("compare", draw(COMPARISONS), ("field", side, other, name), ("field", side, "item", name))
    if kind == 7:
        return ("compare", draw(COMPARISONS), ("sub", draw(whole(side)), draw(whole(side))), draw(constant()))
    if kind == 0:
        return ("missing", side, draw(st.sampled_from(["previous", "next"])))
    if kind == 1:
        role = draw(st.sampled_from(["item", "previous", "next"]))
        return (
            "compare",
            draw(COMPARISONS),
            ("field", side, role, "s"),
            ("const", draw(st.sampled_from(["", "a", "b"]))),
        )
    left = draw(whole(side))
    if left[0] == "pos":
        left = ("field", side, "item", "v")
    return ("compare", draw(COMPARISONS), left, draw(constant()))


@st.composite
def running(draw: st.DrawFn, known: tuple[str, ...]) -> Tree:
    """A condition of END on an aggregate over the window up to END's tuple."""
    functions = st.sampled_from(["SUM", "COUNT", "AVG", "MIN", "MAX"])
    aggregates = st.builds(lambda f, c: ("running", f, c), functions, st.sampled_from(["v", "x", "o", "v"]))
    aggregates |= st.just(("running", "COUNT", "*"))
    left, kind = draw(aggregates), draw(st.integers(0, 3))
    if kind == 0:
        left = ("sub", left, draw(aggregates))
    elif kind == 1:
        left = ("add", left, draw(whole(draw(st.sampled_from(("end", *known))))))
    right = draw(st.integers(0, 12).map(lambda c: ("const", c)) | whole(draw(st.sampled_from(("end", *known)))))
    return ("compare", draw(COMPARISONS), left, right)


@st.composite
def two_sided(draw: st.DrawFn, side: str, known: str) -> Tree:
    kind = draw(st.integers(0, 4))
    operator = draw(COMPARISONS)
    if kind == 0:
        return ("compare", operator, ("sub", ("pos", side), ("pos", known)), draw(constant()))
    if kind == 1:
        difference = (
            "sub",
            ("field", side, draw(st.sampled_from(["item", "next"])), "o"),
            ("field", known, "item", "o"),
        )
        return ("compare", operator, difference, draw(st.integers(0, 12).map(lambda c: ("const", c))))
    if kind == 2:
        name = draw(st.sampled_from(["x", "s", "v"]))
        return (
            "compare",
            operator,
            ("field", side, "item", name),
            ("field", known, draw(st.sampled_from(["item", "next"])), name),
        )
    if kind == 3:
        return ("compare", operator, ("sub", draw(whole(known)), draw(whole(side))), draw(constant()))
    return ("compare", operator, draw(whole(side)), ("add", draw(whole(known)), draw(constant())))


def conditions(side: str, known: tuple[str, ...]) -> st.SearchStrategy[Tree]:
    """A predicate of a boundary."""
    atoms: Any = st.just(("true",)) | one_sided(side)
    for other in known:
        atoms = atoms | two_sided(side, other) | one_sided(other)
    if side == "end":
        atoms = atoms | running(known)
    return st.recursive(
        atoms,
        lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | inner.map(lambda t: ("not", t)),
        max_leaves=3,
    )


@st.composite
def framings(draw: st.DrawFn) -> Framing:
    labelled, tumbling = draw(st.booleans()), draw(st.booleans())
    label = draw(conditions("label", ())) if labelled else None
    start: Tree | str = draw(conditions("start", ("label",) if labelled else ()))
    if draw(st.integers(0, 5)) == 0:
        start = "unbounded"
    seen = (*(("label",) if labelled else ()), *(() if start == "unbounded" else ("start",)))
    end: Tree | str | None = draw(conditions("end", seen))
    choice = draw(st.integers(0, 9))
    if choice == 0:
        end = "unbounded"
    elif choice == 1 and tumbling and not labelled:
        end = None
    return Framing(tumbling, label, start, end, only=end is not None and draw(st.booleans()))


NAMES = {
    ("label", "item"): "l", ("label", "previous"): "lp", ("label", "next"): "ln", ("start", "item"): "s",
    ("start", "previous"): "sp",
    ("start", "next"): "sn", ("end", "item"): "e", ("end", "previous"): "ep", ("end", "next"): "en",
}  # fmt: skip
POSITIONS = {"label": "lat", "start": "sat", "end": "eat"}


def term_text(tree: Tree) -> str:
    kind = tree[0]
    if kind == "const":
        return str(tree[1]) if isinstance(tree[1], int) else f'"{tree[1]}"'
    if kind == "pos":
        return POSITIONS[tree[1]]
    if kind == "field":
        return f"{NAMES[tree[1], tree[2]]}.{tree[3]}"
    if kind == "running":
        return f"{tree[1]}({'*' if tree[2] == '*' else 'w.' + tree[2]})"
    return f"({term_text(tree[1])} {'+' if kind == 'add' else '-'} {term_text(tree[2])})"


def condition_text(tree: Tree) -> str:
    kind = tree[0]
    if kind == "true":
        return "TRUE"
    if kind == "missing":
        return f"{NAMES[tree[1], tree[2]]} IS MISSING"
    if kind == "not":
        return f"NOT ({condition_text(tree[1])})"
    if kind in ("and", "or"):
        return f"({condition_text(tree[1])}) {kind.upper()} ({condition_text(tree[2])})"
    return f"{term_text(tree[2])} {tree[1]} {term_text(tree[3])}"


def boundary_text(side: str, boundary: Tree | str) -> str:
    if boundary == "unbounded":
        return f"{side.upper()} UNBOUNDED"
    assert not isinstance(boundary, str)
    names = (
        f"AS {NAMES[side, 'item']} AT {POSITIONS[side]} PREV AS {NAMES[side, 'previous']} NEXT AS {NAMES[side, 'next']}"
    )
    return f"{side.upper()} {names} WHEN {condition_text(boundary)}"


def text_of(framing: Framing, descending: bool = False) -> str:
    """The query that `oracle.answer` answers."""
    parts = [boundary_text("label", framing.label)] if framing.label is not None else []
    parts.append(boundary_text("start", framing.start))
    if framing.end is not None:
        parts.append(("ONLY " if framing.only else "") + boundary_text("end", framing.end))
    label = "l.id" if framing.label is not None else "NULL"
    start = ("0", "1") if framing.start == "unbounded" else ("s.id", "sat")
    known = framing.end is not None and framing.end != "unbounded"
    finish = ("e.id", "en.v", "eat IS MISSING") if known else ("0", "0", "FALSE")
    key = "l.k" if framing.label is not None else "s.k" if framing.start != "unbounded" else "w[0].k"
    return (
        "FROM rows AS r WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE "
        f"{'TUMBLING' if framing.tumbling else 'SLIDING'} "
        + " ".join(parts)
        + f" SELECT {key} AS k, {label} AS label, {start[0]} AS start, {start[1]} AS at, {finish[0]} AS finish, "
        f"{finish[1]} AS after, {finish[2]} AS open, LEN(w) AS n, w[*].id AS ids, ARRAY_SUM(w[*].v) AS total, "
        "STRICT_SUM(w[*].v) AS strict, ARRAY_AVG(w[*].x) AS mean, ARRAY_MIN(w[*].s) AS low, ARRAY_MAX((SELECT "
        "VALUE t.v FROM w AS t)) AS high, ARRAY_MEDIAN(w[*].v) AS middle, ARRAY_COUNT(ARRAY_DISTINCT(w[*].v)) AS "
        "kinds, ARRAY_STDDEV_SAMP(w[*].x) AS spread, ARRAY_COUNT((SELECT VALUE t.v FROM w AS t WHERE t.v > 2)) AS "
        "big, w[-1].v AS last"
    )


def ignored(framing: Framing) -> set[str]:
    """Columns that the query of this framing cannot say."""
    found: set[str] = set()
    if framing.start == "unbounded":
        found |= {"start", "at"}
        if framing.label is None:
            found |= {"k"}
    if framing.end is None or framing.end == "unbounded":
        found |= {"finish", "after", "open", "last"}
    return found


def sequence_text(framing: Framing) -> str:
    """The framing over one sequence, with the variables that it uses."""
    parts = [] if framing.label is None else [boundary_text("label", framing.label)]
    parts.append(boundary_text("start", framing.start))
    if framing.end is not None:
        parts.append("ONLY " * framing.only + boundary_text("end", framing.end))
    boundaries = " ".join(parts)
    for clause, name in re.findall(r"((?:AT|PREV AS|NEXT AS) (\w+))", boundaries):
        if len(re.findall(rf"\b{name}\b", boundaries)) == 1:
            boundaries = boundaries.replace(f" {clause}", "", 1)
    first = "0" if framing.label is None or framing.start == "unbounded" else "s.id"
    finish = "e.id" if framing.end is not None else "0"
    shown = f"{'s' if framing.label is None else 'l'}.id AS start, {first} AS first, {finish} AS finish, w[*].id AS ids"
    return (
        f"FROM rows AS r WINDOW BY w ORDER BY r.o, r.id TYPE {'TUMBLING' if framing.tumbling else 'SLIDING'} "
        f"{boundaries} SELECT {shown}"
    )


@st.composite
def labelled(draw: st.DrawFn) -> Framing:
    """SLIDING framings with LABEL, most with START and END at some distance from it."""

    def apart(side: str, least: int) -> Tree:
        """`side` so far behind the label, or farther."""
        by = draw(st.sampled_from(["pos", "pos", "key"]))
        this, label = (
            (("pos", side), ("pos", "label"))
            if by == "pos"
            else (("field", side, "item", "o"), ("field", "label", "item", "o"))
        )
        operator, distance = draw(st.sampled_from(["=", ">=", ">="])), draw(st.integers(least, 4))
        if draw(st.integers(0, 5)) == 0:
            return ("compare", draw(st.sampled_from([">", "<="])), ("sub", this, label), ("const", distance))
        if distance < 0:
            return ("compare", operator.replace(">", "<"), ("sub", label, this), ("const", -distance))
        return ("compare", operator, ("sub", this, label), ("const", distance))

    start: Tree | str = (
        apart("start", -4)
        if draw(st.integers(0, 7)) == 0
        else ("compare", "<=", ("sub", ("pos", "label"), ("pos", "start")), ("const", 2))
    )
    kind = draw(st.integers(0, 5))
    distance, field = ("const", draw(st.integers(0, 4))), draw(st.sampled_from(["pos", "o"]))
    if kind < 4:
        sides = [("pos", n) if field == "pos" else ("field", n, "item", "o") for n in ("label", "start")]
        start = ("compare", draw(st.sampled_from(["=", "<=", "<"])), ("sub", *sides), distance)
    elif kind == 4:
        start = "unbounded"
    end: Tree = apart("end", -3)
    choice = draw(st.integers(0, 5))
    if choice == 0:
        end = draw(conditions("end", ("label",) if start == "unbounded" else ("label", "start")))
    elif choice == 1:
        end = (
            "compare",
            ">",
            ("field", "end", draw(st.sampled_from(["item", "next", "previous"])), "v"),
            ("const", draw(st.integers(1, 4))),
        )
    elif choice == 2:
        end = (draw(st.sampled_from(["and", "or"])), end, ("compare", ">", ("field", "end", "item", "v"), ("const", 3)))
    label = draw(conditions("label", ()))
    return Framing(False, label, start, end, draw(st.booleans()))
