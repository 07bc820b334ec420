"""Builder of WINDOW BY queries over a DataFrame, in PySpark's style.

In: a DataFrame, conditions and results as SQL text or Columns. Out: a DataFrame. A condition of a boundary uses the
columns of its own row by name. Other rows are `label`, `start`, `end`, `previous` and `next` (`end.at - start.at`);
their positions are `start_at`, `end_at` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.errors import BelvedereError, counted, fail
from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.functions.function_table import canonical
from belvedere.functions.spark_types import quote
from belvedere.queries.single_query import sql
from belvedere.sqlpp.expression_parser import SqlPlusPlus
from belvedere.sqlpp.parser import parse_selected
from belvedere.sqlpp.query_tree import QueryExpression
from belvedere.syntax.wording import did_you_mean

if TYPE_CHECKING:
    from belvedere.spark.pyspark_types import Column, DataFrame

OPERATORS = frozenset({"=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "and", "or"})
UNARY = {"not": "(NOT {})", "negative": "(- {})", "isNull": "({} IS UNKNOWN)", "isNotNull": "({} IS VALUED)"}
AGGREGATES = {**{n: n for n in GROUP_AGGREGATES}, "COLLECT_LIST": "AGG"}
"""Aggregates, with the suffix of the corresponding ARRAY_ function."""
ROWS = ("label", "start", "end")
SOURCE, ROW, WINDOW = "frame", "r", "w"
"""Names in the query of the DataFrame, of one of its rows, and of the window."""


def window_by(frame: DataFrame) -> FrameWindows:
    """Return a builder of windows over the rows of a DataFrame; see `FrameWindows`."""
    return FrameWindows(frame)


@dataclass(frozen=True)
class FrameWindows:
    """Windows with boundaries given by conditions, over a DataFrame (docs/reference/window-by.md).

    Each method returns a new object; `agg` returns the resulting DataFrame. Text and Columns may be mixed. Raises
    `BelvedereError` if a condition or a result is not valid.
    """

    frame: DataFrame
    partition: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    is_tumbling: bool = False
    conditions: dict[str, str] = field(default_factory=dict)
    unbounded: frozenset[str] = frozenset()
    only_closed: bool = False

    def partition_by(self, *columns: str | Column) -> FrameWindows:
        """Compute windows separately for each combination of values of these columns or expressions."""
        return replace(self, partition=tuple(map(_text, columns)))

    def order_by(self, *columns: str | Column, ascending: bool | Sequence[bool] = True) -> FrameWindows:
        """Set the order of the rows; `ascending` is one value for all columns, or one for each."""
        ways = [ascending] * len(columns) if isinstance(ascending, bool) else list(ascending)
        if len(ways) != len(columns):
            raise fail(
                "B9122",
                f"order_by has {counted(len(columns), 'column')} and {counted(len(ways), 'value')} of ascending",
                hint="give one for each",
            )
        texts = (_text(c) + ("" if way else " DESC") for c, way in zip(columns, ways, strict=True))
        return replace(self, order=tuple(texts))

    def sliding(self) -> FrameWindows:
        """Open a window at each row with START, so that windows may overlap. This is the default."""
        return replace(self, is_tumbling=False)

    def tumbling(self) -> FrameWindows:
        """Search the next START after the end of a window, so that windows do not overlap."""
        return replace(self, is_tumbling=True)

    def label_when(self, condition: str | Column = "TRUE") -> FrameWindows:
        """Create a window for each row that meets the condition; START is searched from the partition's first row."""
        return self._with("label", condition)

    def start_when(self, condition: str | Column) -> FrameWindows:
        """Start windows at rows that meet the condition; by default at every row."""
        return self._with("start", condition)

    def start_unbounded(self) -> FrameWindows:
        """Start windows at the partition's first row."""
        return replace(self, unbounded=self.unbounded | {"start"})

    def end_when(self, condition: str | Column, only: bool = False) -> FrameWindows:
        """End windows at the first row, from the start on, that meets the condition.

        With `only`, windows without such a row are dropped.
        """
        return replace(self._with("end", condition), only_closed=only)

    def end_unbounded(self) -> FrameWindows:
        """End windows at the partition's last row."""
        return replace(self, unbounded=self.unbounded | {"end"})

    def _with(self, boundary: str, condition: str | Column) -> FrameWindows:
        return replace(
            self, conditions={**self.conditions, boundary: _text(condition)}, unbounded=self.unbounded - {boundary}
        )

    def agg(self, *results: str | Column) -> DataFrame:
        """Return a DataFrame with a row per window: the columns of `partition_by`, then the results.

        A result is an aggregate over the window's rows (`avg(val) AS mean`), or an expression. An expression may use
        aggregates, `start.x`, `end.x`, `label.x`, `previous.x` (before the start), `next.x` (after the end), and
        positions (`end_at - start_at`). Raises `BelvedereError` if a result is not valid.
        """
        text = self.query(*results)
        try:
            return sql(self.frame.sparkSession, text, **{SOURCE: self.frame})
        except BelvedereError as error:
            error.add_note(f"in the query {text}")
            raise

    def query(self, *results: str | Column) -> str:
        """Return the query that `agg` runs, as text for `belvedere.sql` over a table `frame`."""
        if not self.order:
            raise fail("B9122", "windows need an order of the rows", hint='write .order_by("time")')
        names = _Names(tuple(self.frame.columns))
        partition = [names.of_row(p, "") for p in self.partition]
        order = [names.of_row(o.removesuffix(" DESC"), "") + " DESC" * o.endswith(" DESC") for o in self.order]
        whens = {b: names.of_row(c, b) for b, c in self.conditions.items()}
        own = "label" if "label" in whens else "start"
        keys = [f"{names.key(p, own, own in self.unbounded)} AS {quote(_name_of(p))}" for p in self.partition]
        shown = ", ".join([*keys, *(names.result(_text(r)) for r in results)])
        boundaries = [self._boundary(b, names.declared(b), whens.get(b)) for b in ROWS if self._has(b)]
        by = f" PARTITION BY {', '.join(partition)}" if partition else ""
        kind = "TUMBLING" if self.is_tumbling else "SLIDING"
        head = f"FROM {SOURCE} AS {ROW} WINDOW BY {WINDOW}{by} ORDER BY {', '.join(order)} TYPE {kind}"
        return " ".join([head, *boundaries, f"SELECT {shown}"])

    def _has(self, boundary: str) -> bool:
        """Return whether the query defines the boundary; tumbling windows need no end."""
        if boundary == "end" and not self.is_tumbling and boundary not in self.conditions.keys() | self.unbounded:
            raise fail("B9122", "sliding windows need an end", hint='write .end_when("condition"), or .end_unbounded()')
        return boundary == "start" or boundary in self.conditions or boundary in self.unbounded

    def _boundary(self, boundary: str, declared: str, when: str | None) -> str:
        word = "ONLY END" if boundary == "end" and self.only_closed else boundary.upper()
        if boundary in self.unbounded:
            return f"{word} UNBOUNDED"
        return f"{word}{declared}" + (f" WHEN {when}" if when is not None else "")


class _Names:
    """Translates column and row names in texts to names in the query; `used` are the variables that it must declare."""

    def __init__(self, columns: tuple[str, ...]):
        self.columns = columns
        self.used: set[tuple[str, str]] = set()

    def of_row(self, text: str, own: str) -> str:
        """Return a text about one row and its neighbours, with columns of the row `own` ("" before the clause)."""
        return self._put(text, [(place, self._root(*place, text, own)) for place in _roots(text)])

    def key(self, text: str, own: str, unbounded: bool) -> str:
        """Return a key of PARTITION BY, which has the same value in all rows of a window."""
        if unbounded:
            return self._put(text, [((a, b), f"{WINDOW}[0].{text[a:b]}") for a, b in _roots(text)])
        return self.of_row(text, own)

    def result(self, text: str) -> str:
        """Return a result with its name."""
        roots, calls = _roots(text), list(_aggregates(text))
        parts = [((first, last), self._aggregate(function, argument)) for first, last, function, argument in calls]
        alone = [(a, b) for a, b in roots if not any(first <= a < last for first, last, *_ in calls)]
        parts += [((a, b), self._root(a, b, text, None)) for a, b in alone]
        return self._put(text, parts) + ("" if parse_selected(text).name else f" AS {quote(text.strip())}")

    def declared(self, boundary: str) -> str:
        """Return the declarations of the boundary's variables that the texts use."""
        words = {"item": "AS", "at": "AT", "previous": "PREV AS", "next": "NEXT AS"}
        return "".join(f" {word} {boundary}_{role}" for role, word in words.items() if (boundary, role) in self.used)

    def _put(self, text: str, parts: list[tuple[tuple[int, int], str]]) -> str:
        for (first, last), put in sorted(parts, reverse=True):
            text = text[:first] + put + text[last:]
        return text

    def _root(self, first: int, last: int, text: str, own: str | None) -> str:
        """Return the text of a name: a row or its position, else a column of the row `own`."""
        word = text[first:last]
        is_column = word.strip("`").casefold() in {c.casefold() for c in self.columns}
        if own != "" and (not is_column or text[last:].lstrip().startswith(".")):
            found = self._row(word.casefold(), own)
            if found is not None:
                return found
        if not is_column:
            raise fail("B9123", f"the DataFrame has no column {word}", hint=did_you_mean(word, self.columns))
        if own is None:
            hint = f"write start.{word} or end.{word}, or an aggregate such as max({word})"
            raise fail("B9122", f"{word} is ambiguous: a window has many rows", hint=hint)
        return f"{self._variable(own, 'item') if own else ROW}.{word}"

    def _row(self, word: str, own: str | None) -> str | None:
        if word in ROWS:
            return self._variable(word, "item")
        if word in ("previous", "next"):
            return self._variable(own or {"previous": "start", "next": "end"}[word], word)
        side = word.removesuffix("_at")
        return self._variable(side, "at") if side in ROWS and side != word else None

    def _variable(self, side: str, role: str) -> str:
        self.used.add((side, role))
        return f"{side}_{role}"

    def _aggregate(self, function: str, argument: str) -> str:
        argument = argument.strip()
        if argument in ("*", "1"):
            return f"ARRAY_COUNT({WINDOW})"
        inner = self.of_row(argument, "")
        is_column = isinstance(parse_selected(argument).expr, exp.Column)
        array = f"{WINDOW}[*].{argument}" if is_column else f"(FROM {WINDOW} AS {ROW} SELECT VALUE {inner})"
        return f"ARRAY_{function}({array})"


def _roots(text: str) -> list[tuple[int, int]]:
    """Return the positions of column and row names, without the fields that follow."""
    expr = parse_selected(text).expr
    if expr is None or expr.find(QueryExpression):
        raise fail(
            "B9122", f"a query inside {text!r}", hint="write the whole query with belvedere.sql(spark, text, ...)"
        )
    return [(c.this.meta["start"], c.this.meta["end"] + 1) for c in expr.find_all(exp.Column)]


def _aggregates(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield the calls of aggregates: start, end, function, argument."""
    tokens, last = SqlPlusPlus().tokenize(text), 0
    for place, (token, following) in enumerate(pairwise(tokens)):
        name = canonical(token.text)
        is_call = token.token_type != TokenType.STRING and following.token_type == TokenType.L_PAREN
        if token.start >= last and is_call and name in AGGREGATES:
            last = _closing(tokens[place + 1 :])
            yield token.start, last, AGGREGATES[name], text[following.end + 1 : last - 1]


def _closing(tokens: list[Token]) -> int:
    """Return the end of the bracket that the first token opens; the text has been parsed before."""
    depth = 0
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0:
            return token.end + 1
    raise AssertionError("an open bracket")


def _name_of(text: str) -> str:
    """Return the name of a key's column: its last field, or its text."""
    return parse_selected(text).name or text


# -- Columns of PySpark --------------------------------------------------------------------------------------------


def _text(part: str | Column) -> str:
    """Return a Column as text; text is returned unchanged."""
    if isinstance(part, str):
        return part
    node = getattr(getattr(part, "_jc", None), "node", None)
    if node is None:
        raise fail("B9122", "a condition cannot be a Column with Spark Connect", hint="write the condition as text")
    return _node_text(node())


def _node_text(node: Any) -> str:
    kind = node.getClass().getSimpleName()
    if kind == "Alias":
        return f"{_node_text(node.child())} AS {quote(node.name().head())}"
    if kind == "UnresolvedAttribute":
        return ".".join(quote(p) if not p.isidentifier() else p for p in _members(node.nameParts()))
    if kind == "Literal":
        return str(node.sql())
    if kind == "UnresolvedFunction" and not node.isDistinct():
        name, arguments = str(node.functionName()), [_node_text(a) for a in _members(node.arguments())]
        if name in OPERATORS and len(arguments) == 2:
            return f"({arguments[0]} {name.upper()} {arguments[1]})"
        if name in UNARY and len(arguments) == 1:
            return UNARY[name].format(arguments[0])
        if name.isidentifier():
            return f"{name}({', '.join(arguments)})"
    if kind == "UnresolvedStar":
        return "*"
    raise fail(
        "B9122",
        f"the Column {node.sql()} is not supported here",
        hint="write it as text, or compute it as a column first",
    )


def _members(seq: Any) -> list[Any]:
    return [seq.apply(n) for n in range(seq.size())]
