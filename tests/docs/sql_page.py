"""`docs/reference/sql.md`: the supported SQL as tables, generated from the function table and the parser's lists.

In: `FUNCTIONS`, `COUNTED`, `OTHER_STATEMENTS`, the parts of trees that are refused. Out: the page's text. `pytest
tests/docs --update` writes it; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap

from belvedere.functions.function import MANY, Function, Kind
from belvedere.functions.function_table import FUNCTIONS
from belvedere.functions.other_systems import OTHER_FUNCTIONS
from belvedere.functions.untyped import CAST_NEEDED, COUNTED
from belvedere.syntax.forms.pipes import STEPS
from belvedere.syntax.problems import OTHER_STATEMENTS
from belvedere.syntax.supported import refused_forms
from tests.spark_grammar.counts import counts_section
from tests.spark_grammar.extensions import EXTENSIONS, OTHERWISE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql.md"
COMMAND = "pytest tests/docs --update"
STATEMENTS = {
    "IMPORT": ("a source's table, or another script", "inputs.md"),
    "CREATE STREAM": ("an input whose rows only arrive", "inputs.md"),
    "CREATE TABLE": ("an input whose rows change", "inputs.md"),
    "name := query, CREATE VIEW": ("a view", "views.md"),
    "name(parameters) := query": ("a query template, an endpoint with parameters", "endpoints.md#query-templates"),
    "T.name := JOIN ...": ("a relationship", "relationships.md"),
    "T.name := expression": ("a column of a table", "relationships.md"),
    "name := DISTINCT T ON ...": ("a state made of a stream of changes", "views.md"),
    "CREATE SUBSCRIPTION, SUBSCRIBE": ("events of changes", "endpoints.md#subscriptions"),
    "EXPORT": ("the changes of a view to a sink", "endpoints.md#exports"),
}
CLAUSES = {
    "with_": "WITH name AS (...), WITH RECURSIVE name [MAX RECURSION LEVEL n] AS (first rows UNION [ALL] step)",
    "expressions": "SELECT items, `*`, `* EXCEPT`, `AS`",
    "distinct": "DISTINCT",
    "from_": "FROM tables, views, paths, subqueries, VALUES, Tumble, Hop, Cumulate, Session",
    "laterals": "LATERAL VIEW",
    "joins": "JOIN: INNER, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI, NATURAL, LATERAL, USING, ASOF, FOR SYSTEM_TIME AS OF",
    "where": "WHERE",
    "group": "GROUP BY, ALL, ROLLUP, CUBE, GROUPING SETS",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW name AS (...)",
    "order": "ORDER BY, ORDER BY ALL",
    "sort": "SORT BY, which changes nothing",
    "distribute": "DISTRIBUTE BY, which changes nothing",
    "cluster": "CLUSTER BY, which changes nothing",
    "limit": "LIMIT, FETCH FIRST n ROWS ONLY",
    "offset": "OFFSET",
    "emit": "EMIT [STREAM] AFTER WATERMARK, AFTER DELAY, ON WINDOW CLOSE",
    "stream": "SELECT STREAM",
    "spl": "windows of SPL: `SLIDING`, `TUMBLING`",
}
"""By the argument of a SELECT's tree, in the order in which people write them."""
KINDS = {Kind.SCALAR: "Functions of a row", Kind.AGGREGATE: "Aggregates", Kind.WINDOW: "Window functions"}


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# SQL"
    yield ""
    yield (
        "Queries are Spark SQL. This page lists supported forms, what stores compute too, and rejected forms with "
        "alternatives."
    )
    yield f"It is generated from the compiler's tables (`{COMMAND}`), and a test compares them."
    yield "[The language](language.md) explains statements; `belvedere explain CODE` explains a rejection."
    yield from _table("Statements", ("statement", "what it defines"), _statements())
    yield from _table("Clauses of a query", ("clause",), ((text,) for text in CLAUSES.values()))
    yield "| UNION, INTERSECT, EXCEPT, each with ALL or BY NAME |"
    yield "| Spark's pipes, `\\|>`: " + STEPS + " |"
    yield "| [WINDOW BY](window-by.md) |"
    yield from _table("Statements of other systems", ("statement", "instead"), sorted(OTHER_STATEMENTS.items()))
    yield from _table("Rejected clauses and forms", ("form", "instead"), refused_forms())
    for kind, title in KINDS.items():
        rows = [f for f in FUNCTIONS if f.kind is kind and f.deterministic and f.calls]
        yield from _table(title, ("function", "arguments", "notes"), sorted(_functions(rows)))
    yield from _list(
        "Functions that need a CAST",
        "Belvedere knows their numbers of arguments, not their types: write `CAST(f(...) AS type)`.",
        CAST_NEEDED,
    )
    yield from _list(
        "Functions of Spark that views cannot use", "They are rejected (B3005).", set(COUNTED) - CAST_NEEDED
    )
    again = {name for f in FUNCTIONS if not f.deterministic for name in f.calls}
    yield from _list(
        "Functions with a different answer each time",
        "A view must follow from its input, so they are rejected (B3006).",
        again,
    )
    yield from _table("Functions of other systems", ("function", "instead"), sorted(OTHER_FUNCTIONS.items()))
    yield from _table(
        "Forms that Spark rejects and Belvedere supports",
        ("condition of Spark's error", "here"),
        sorted(EXTENSIONS.items()),
    )
    yield from _table("Answers that differ from Spark", ("form", "here"), sorted(OTHERWISE.items()))
    yield from counts_section()


def _statements() -> Iterator[tuple[str, str]]:
    for words, (what, target) in STATEMENTS.items():
        yield ", ".join(f"`{w}`" for w in words.split(", ")), f"[{what}]({target})"


def _functions(rows: Iterable[Function]) -> Iterator[tuple[str, str, str]]:
    for row in rows:
        notes = [
            "stores compute it too" if row.stored is not None else "",
            "IGNORE NULLS" if row.skips_nulls else "",
            f"`{row.forgiving}` gives NULL where it fails" if row.forgiving else "",
            "WINDOW BY: " + ", ".join(f"`{f.name}`" for f in row.window_by) if row.window_by else "",
        ]
        for name, counts in row.calls.items():
            yield f"`{name}`", _counts(counts), "; ".join(n for n in notes if n)


def _counts(counts: tuple[int, int] | None) -> str:
    if counts is None:
        return ""
    least, most = counts
    return str(least) if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"


def _table(title: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _list(title: str, text: str, names: Iterable[str]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield text
    yield ""
    yield from wrap(", ".join(f"`{name}`" for name in sorted(names)), 118)
