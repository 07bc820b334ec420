"""Layout of one statement in lines.

In: words, bracket groups and comments. Out: text. A statement that fits in a line is one line. Otherwise each clause
has a line, and a list that does not fit has one item per line.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import TokenType as T

from belvedere.syntax.fmt.spacing import space_between
from belvedere.syntax.fmt.words import Brackets, LayoutItem, Mark, Word

WIDTH = 100
STEP = 4
CLAUSES = frozenset(
    (
        T.SELECT,
        T.FROM,
        T.WHERE,
        T.GROUP_BY,
        T.HAVING,
        T.ORDER_BY,
        T.LIMIT,
        T.OFFSET,
        T.QUALIFY,
        T.LATERAL,
        T.UNION,
        T.EXCEPT,
        T.INTERSECT,
    )
)
SET_OPERATIONS = (T.UNION, T.EXCEPT, T.INTERSECT)
JOIN_WORDS = frozenset((T.LEFT, T.RIGHT, T.FULL, T.INNER, T.OUTER, T.CROSS, T.SEMI, T.ANTI, T.NATURAL))
LISTS = frozenset((T.SELECT, T.FROM, T.GROUP_BY, T.ORDER_BY, T.VALUES))


def lay_out(items: list[LayoutItem]) -> str:
    """Return the formatted text of a statement, without semicolon."""
    writer = LineWriter()
    head, body = _head(items)
    flat = flatten(items)
    if flat is not None and len(flat) < WIDTH:
        return flat
    if head:
        _write_inline(writer, head, 0)
        if not body:
            return writer.text()
        writer.line(STEP)
    _write_query(writer, body, STEP if head else 0)
    return writer.text()


def _head(items: list[LayoutItem]) -> tuple[list[LayoutItem], list[LayoutItem]]:
    """Split off the part before a query or expression: `V :=`, `CREATE VIEW V AS`.

    Statements without one are all head or all body.
    """
    kinds = [item.kind if isinstance(item, Word) else None for item in items]
    for ends in (T.COLON_EQ, *((T.ALIAS,) if kinds[0] == T.CREATE else ())):
        if ends in kinds:
            at = kinds.index(ends) + 1
            return items[:at], items[at:]
    first = items[0]
    is_head = isinstance(first, Word) and first.text.upper() in ("CREATE", "IMPORT", "EXPORT")
    return (items, []) if is_head else ([], items)


def flatten(items: list[LayoutItem] | tuple[LayoutItem, ...]) -> str | None:
    """Return all items in one line; None if a comment or a block needs several lines."""
    writer = LineWriter()
    for item in items:
        if isinstance(item, Brackets):
            inner = flatten(item.items)
            if inner is None:
                return None
            writer.word(item.opening)
            writer.raw(inner, item.items)
            writer.word(item.closing)
        elif isinstance(item, Mark):
            if item.breaks:
                return None
            writer.mark(item.text)
        elif "\n" in item.text:
            return None
        else:
            writer.word(item)
    return writer.text()


class LineWriter:
    """Writes words to lines with the correct spaces."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.last: Word | None = None
        self.before_last: Word | None = None
        self.fresh = True
        self.must_break = False

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(line.rstrip() for line in self.lines)

    def line(self, indent: int) -> None:
        """Begin a new line with this indent; if the current line is empty, only set its indent."""
        if self.lines[-1].strip():
            self.lines.append("")
        self.lines[-1] = " " * indent
        self.fresh, self.must_break = True, False

    def _continue(self) -> None:
        if self.must_break:
            self.line(len(self.lines[-1]) - len(self.lines[-1].lstrip()))

    def _add(self, text: str) -> None:
        self.lines[-1:] = (self.lines[-1] + text).split("\n")

    def word(self, word: Word) -> None:
        """Add a word."""
        self._continue()
        spaced = not self.fresh and self.last is not None and space_between(self.before_last, self.last, word)
        self._add((" " if spaced else "") + word.text)
        self.before_last, self.last, self.fresh = self.last, word, False

    def raw(self, text: str, items: tuple[LayoutItem, ...]) -> None:
        """Add text that is already laid out."""
        self.lines[-1] += text
        words = [i for i in items if isinstance(i, Word)]
        if words:
            self.before_last, self.last = self.last, words[-1]
        self.fresh = False

    def mark(self, text: str, *, breaks: bool = False) -> None:
        """Add a comment. If it `breaks`, the next word begins a line."""
        self._continue()
        inside = self.last is not None and self.last.kind in (T.L_PAREN, T.L_BRACKET)
        self._add(("" if self.fresh or inside else " ") + text)
        self.last = Word(text, T.VAR)
        self.fresh = False
        self.must_break = breaks


def _segments(items: list[LayoutItem]) -> list[list[LayoutItem]]:
    """Return the clauses of a query."""
    segments: list[list[LayoutItem]] = [[]]
    for i, item in enumerate(items):
        if segments[-1] and _starts_clause(items, i):
            segments.append(_take_own_marks(segments[-1]))
        segments[-1].append(item)
    return _where_first([s for s in segments if s])


def _take_own_marks(segment: list[LayoutItem]) -> list[LayoutItem]:
    """Remove and return trailing comments on their own lines: they belong to the next clause."""
    taken: list[LayoutItem] = []
    while len(segment) > 1 and isinstance(mark := segment[-1], Mark) and mark.own and mark.breaks:
        taken.insert(0, segment.pop())
    return taken


def _starts_clause(items: list[LayoutItem], i: int) -> bool:
    item = items[i]
    if not isinstance(item, Word) or not item.keyword:
        return False
    before = items[i - 1] if i else None
    if item.kind == T.SELECT or item.kind in CLAUSES:
        excludes = item.kind == T.EXCEPT and isinstance(before, Word) and before.kind == T.STAR
        distinct_from = item.kind == T.FROM and isinstance(before, Word) and before.kind == T.DISTINCT
        return not excludes and not distinct_from
    if item.kind == T.JOIN or item.kind in JOIN_WORDS:
        return _starts_join(items, i)
    if item.kind == T.WINDOW:
        following = items[i + 2] if i + 2 < len(items) else None
        return isinstance(following, Word) and following.kind == T.COLON
    return item.text.upper() == "EMIT"


def _starts_join(items: list[LayoutItem], i: int) -> bool:
    before = items[i - 1] if i else None
    if isinstance(before, Word) and before.kind in JOIN_WORDS:
        return False
    kinds = (item.kind if isinstance(item, Word) else None for item in items[i : i + 4])
    return next((kind for kind in kinds if kind not in JOIN_WORDS), None) == T.JOIN


def _kind(segment: list[LayoutItem]) -> T | None:
    first = next((i for i in segment if not isinstance(i, Mark)), None)
    return first.kind if isinstance(first, Word) else None


def _where_first(segments: list[list[LayoutItem]]) -> list[list[LayoutItem]]:
    """Move WHERE before GROUP BY within each SELECT."""
    result: list[list[LayoutItem]] = []
    group = None
    for segment in segments:
        kind = _kind(segment)
        if kind in (T.SELECT, *SET_OPERATIONS):
            group = None
        if kind == T.WHERE and group is not None:
            result.insert(group, segment)
            continue
        if kind == T.GROUP_BY:
            group = len(result)
        result.append(segment)
    return result


def _write_query(writer: LineWriter, items: list[LayoutItem], indent: int) -> None:
    for segment in _segments(items):
        writer.line(indent)
        _write_segment(writer, segment, indent)


def _write_segment(writer: LineWriter, segment: list[LayoutItem], indent: int) -> None:
    while segment and isinstance(segment[0], Mark) and segment[0].breaks:
        writer.mark(segment[0].text, breaks=True)
        writer.line(indent)
        segment = segment[1:]
    last = segment[-1] if segment else None
    core = segment[:-1] if isinstance(last, Mark) and last.breaks and not last.own else segment
    flat = flatten(core)
    if flat is not None and indent + len(flat) < WIDTH:
        _write_inline(writer, segment, indent)
        return
    kind = _kind(segment)
    if kind in LISTS and (kind == T.SELECT or any(isinstance(i, Word) and i.kind == T.COMMA for i in segment)):
        _write_list(writer, segment, indent)
    else:
        _write_inline(writer, segment, indent, breaks=_before_condition())


def _before_condition() -> Callable[[Word], bool]:
    """Return a test for words before which a long condition is broken: AND, OR and ON, but not the AND of a BETWEEN nor
    inside CASE.
    """
    state = {"between": 0, "case": 0}

    def breaks(word: Word) -> bool:
        if word.kind == T.CASE:
            state["case"] += 1
        elif word.kind == T.END and state["case"]:
            state["case"] -= 1
        elif word.kind == T.BETWEEN:
            state["between"] += 1
        elif word.kind == T.AND and state["between"]:
            state["between"] -= 1
        elif word.kind in (T.AND, T.OR, T.ON) and word.keyword:
            return not state["case"]
        return False

    return breaks


def _write_list(writer: LineWriter, segment: list[LayoutItem], indent: int) -> None:
    """Write `SELECT` on its line, then one item per line."""
    index = next(i for i, item in enumerate(segment) if isinstance(item, Word)) + 1
    while index < len(segment) and _modifies_select(segment[index]):
        index += 1
    _write_inline(writer, segment[:index], indent)
    _write_items(writer, segment[index:], indent + STEP)


def _modifies_select(item: LayoutItem) -> bool:
    if isinstance(item, Mark):
        return item.breaks and not item.own
    return isinstance(item, Word) and item.keyword and (item.kind in (T.DISTINCT, T.ALL) or item.text == "STREAM")


def _write_items(writer: LineWriter, items: list[LayoutItem] | tuple[LayoutItem, ...], indent: int) -> None:
    """Write a comma-separated list, one item per line; a comment that ends a line stays on it."""
    writer.line(indent)
    after_comma = False
    for item in items:
        if after_comma and not (isinstance(item, Mark) and not item.own and item.breaks):
            writer.line(indent)
            after_comma = False
        _write_item(writer, item, indent)
        after_comma = after_comma or (isinstance(item, Word) and item.kind == T.COMMA and not item.typed)


def _write_inline(
    writer: LineWriter, items: list[LayoutItem], indent: int, breaks: Callable[[Word], bool] | None = None
) -> None:
    for item in items:
        if breaks is not None and isinstance(item, Word) and breaks(item):
            writer.line(indent + STEP)
        _write_item(writer, item, indent)


def _write_item(writer: LineWriter, item: LayoutItem, indent: int) -> None:
    if isinstance(item, Word):
        writer.word(item)
    elif isinstance(item, Mark):
        if item.own:
            writer.line(_indent_of(writer, indent))
        writer.mark(item.text, breaks=item.breaks)
    else:
        _write_group(writer, item, indent)


def _indent_of(writer: LineWriter, indent: int) -> int:
    line = writer.lines[-1]
    return len(line) - len(line.lstrip()) if line.strip() else max(len(line), indent)


def _write_group(writer: LineWriter, group: Brackets, indent: int) -> None:
    writer.word(group.opening)
    flat = flatten(group.items)
    used = len(writer.lines[-1])
    if flat is not None and used + len(flat) < WIDTH:
        writer.raw(flat, group.items)
        writer.word(group.closing)
        return
    base = _indent_of(writer, indent)
    if _is_query(group.items):
        _write_query(writer, list(group.items), base + STEP)
    else:
        _write_items(writer, group.items, base + STEP)
    writer.line(base)
    writer.word(group.closing)


def _is_query(items: tuple[LayoutItem, ...]) -> bool:
    first = next((i for i in items if not isinstance(i, Mark)), None)
    return isinstance(first, Word) and first.keyword and first.kind in (T.SELECT, T.WITH, T.FROM)
