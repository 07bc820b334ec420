"""Definitions of statements, recognised by their first tokens.

In: the tokens of a statement. Out: a `Head`: its form, the path that it defines, parameters, declared columns, the
start of its query.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlglot.tokenizer_core import TokenType as T

from belvedere.editor.tolerant_reading import ReadText, is_word

NO_COLUMN = frozenset(("PRIMARY", "PRIMARY KEY", "WATERMARK", "CONSTRAINT", "CHECK", "UNIQUE", "FOREIGN", "KEY", "NOT"))


class StatementForm(StrEnum):
    """Forms of statements that the editor distinguishes."""

    IMPORT = "import"
    EXPORT = "export"
    INPUT = "input"
    VIEW = "view"
    SUBSCRIPTION = "subscription"
    MEMBER = "member"
    """`T.name := ...`: a column, a nested table or a relationship."""
    TEMPLATE = "template"
    QUERY = "query"


@dataclass(frozen=True)
class Head:
    """First part of a statement. All numbers are indexes of tokens.

    `body` is the start of the query or expression. `columns` and `parameters` are names with the ends of their
    declarations. For an import, `path` is the imported name and `alias` its local name.
    """

    form: StatementForm
    path: tuple[int, ...] = ()
    body: int = 0
    parameters: tuple[tuple[int, int], ...] = ()
    columns: tuple[tuple[int, int], ...] = ()
    alias: int | None = None

    @property
    def name(self) -> int | None:
        """Return the token of the defined name."""
        return self.alias if self.alias is not None else self.path[-1] if self.path else None


def read_head(read: ReadText, lo: int, hi: int) -> Head:
    """Return the head of the statement with the tokens `[lo, hi)`."""
    word = read.tokens[lo].text.upper()
    if word in ("IMPORT", "EXPORT") and (lo + 1 == hi or is_word(read.tokens[lo + 1]) or _is_variable(read, lo + 1)):
        return _moved(read, lo, hi, StatementForm(word.lower()))
    if read.tokens[lo].token_type == T.CREATE:
        return _created(read, lo, hi)
    return _defined(read, lo, hi)


def _moved(read: ReadText, lo: int, hi: int, form: StatementForm) -> Head:
    path, end = _origin(read, lo + 1, hi)
    star = end + 1 < hi and read.tokens[end].token_type == T.DOT and read.tokens[end + 1].token_type == T.STAR
    end += 2 if star else 0
    aliased = end + 1 < hi and read.tokens[end].token_type == T.ALIAS and is_word(read.tokens[end + 1])
    if form is StatementForm.EXPORT or not aliased:
        return Head(form, tuple(path), end)
    return Head(form, tuple(path), end + 2, alias=end + 1)


def _is_variable(read: ReadText, i: int) -> bool:
    """Return whether a variable of the project file, `{{name}}`, begins at a token."""
    return [t.token_type for t in read.tokens[i : i + 2]] == [T.L_BRACE, T.L_BRACE]


def _origin(read: ReadText, i: int, hi: int) -> tuple[list[int], int]:
    """Return the names of an import's path, including those of variables, and the token after it."""
    path: list[int] = []
    end = i
    while i < hi:
        braces = 2 if _is_variable(read, i) else 0
        if i + braces >= hi or not is_word(read.tokens[i + braces]):
            break
        path.append(i + braces)
        end = i + 2 * braces + 1
        if end >= hi or read.tokens[end].token_type != T.DOT:
            break
        i = end + 1
    return path, end


def _created(read: ReadText, lo: int, hi: int) -> Head:
    i = lo + 1
    words = []
    while i < hi and (w := read.tokens[i].text.upper()) in (
        "OR",
        "REPLACE",
        "VIEW",
        "STREAM",
        "TABLE",
        "SUBSCRIPTION",
        "TEMPORARY",
        "MATERIALIZED",
    ):
        words.append(w)
        i += 1
    if i >= hi or not is_word(read.tokens[i]):
        return Head(StatementForm.VIEW, (), i)
    path = tuple(read.path_from(i, hi))
    i = path[-1] + 1
    if "STREAM" in words or "TABLE" in words:
        closed = i < hi and read.tokens[i].token_type == T.L_PAREN
        end = read.close(i, hi) if closed else i
        return Head(StatementForm.INPUT, path, end, columns=tuple(_declared(read, i + 1, end)) if closed else ())
    form = StatementForm.SUBSCRIPTION if "SUBSCRIPTION" in words else StatementForm.VIEW
    parameters: tuple[tuple[int, int], ...] = ()
    if i < hi and read.tokens[i].token_type == T.L_PAREN:
        end = read.close(i, hi)
        parameters, i = tuple(_declared(read, i + 1, end)), end + 1
    while i < hi and read.tokens[i].token_type not in (T.ALIAS, T.SELECT, T.FROM, T.WITH):
        i += 1
    return Head(form, path, i + 1 if i < hi and read.tokens[i].token_type == T.ALIAS else i, parameters)


def _declared(read: ReadText, lo: int, hi: int) -> list[tuple[int, int]]:
    """Return the names of `name TYPE, ...` with the ends of their declarations."""
    found = []
    for begin, end in read_items(read, lo, hi):
        if is_word(read.tokens[begin]) and read.tokens[begin].text.upper() not in NO_COLUMN:
            found.append((begin, end))
    return found


def read_items(read: ReadText, lo: int, hi: int) -> list[tuple[int, int]]:
    """Return the token ranges between the commas of a list. Commas within brackets, including those of types, do not
    separate."""
    found, begin, i, angles = [], lo, lo, 0
    while i < hi:
        kind = read.tokens[i].token_type
        if kind in (T.L_PAREN, T.L_BRACKET):
            i = read.close(i, hi)
        angles += (kind == T.LT) - (kind == T.GT) if kind in (T.LT, T.GT) and angles + (kind == T.LT) > 0 else 0
        if kind == T.COMMA and not (angles and _is_type(read, begin)):
            found.append((begin, i))
            begin = i + 1
            angles = 0
        i += 1
    found.append((begin, hi))
    return [(a, b) for a, b in found if a < b]


def _is_type(read: ReadText, begin: int) -> bool:
    """Return whether an item is a name with a nested type, which may contain commas: `a STRUCT<b: INT, c: INT>`."""
    return begin + 1 < len(read.tokens) and read.tokens[begin + 1].token_type in (T.STRUCT, T.ARRAY, T.MAP)


def _defined(read: ReadText, lo: int, hi: int) -> Head:
    if not is_word(read.tokens[lo]):
        return Head(StatementForm.QUERY, (), lo)
    path = tuple(read.path_from(lo, hi))
    i = path[-1] + 1
    parameters: tuple[tuple[int, int], ...] = ()
    bracket = i < hi and read.tokens[i].token_type == T.L_PAREN
    if bracket:
        end = read.close(i, hi)
        parameters, i = tuple(_declared(read, i + 1, end)), end + 1
    if i >= hi or read.tokens[i].token_type != T.COLON_EQ:
        return Head(StatementForm.QUERY, (), lo)
    form = StatementForm.MEMBER if len(path) > 1 else StatementForm.TEMPLATE if bracket else StatementForm.VIEW
    return Head(form, path, i + 1, parameters)
