"""Syntax of PostgREST's dialect: tests of columns, groups of tests, lists of values, selections, and orders.

In: percent-decoded texts of a query string. Out: trees of names and texts. Raises `RequestError` (B8016) for invalid
syntax. It does not use the model: other modules look up the names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from belvedere.api.failures import LIMIT_EXCEEDED, UNREADABLE, RequestError
from belvedere.api.limits import NESTED_MOST

RESERVED = ',.:()"!'
"""Characters that end a name; a name with one of them is written in double quotes."""
WORDS = ("and", "or")
_remembered = lru_cache(1_000)
"""Cache of the common part of requests of one shape."""


@dataclass(frozen=True)
class Test:
    """`column operator value`; the operator `in` has a tuple of values."""

    column: str
    operator: str
    value: str | tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True)
class ConditionGroup:
    """Tests that must all hold (`and`), or one of them (`or`)."""

    word: str
    parts: tuple[Test | ConditionGroup, ...]
    negated: bool = False


@dataclass(frozen=True)
class Chosen:
    """A selected column, `*`, or a relationship with the selection `parts` of it."""

    name: str
    alias: str | None = None
    parts: tuple[Chosen, ...] | None = None


@dataclass(frozen=True)
class Ordered:
    """A column to order by. With `nulls_first` None the direction determines the place of NULLs."""

    column: str
    descending: bool = False
    nulls_first: bool | None = None


@cache
def _others(ends: str) -> re.Pattern[str]:
    return re.compile(f"[^{re.escape(ends)}]*")


class _TextCursor:
    """A text and a position in it. `what` names the text in messages."""

    def __init__(self, what: str, text: str):
        self.what, self.text, self.place = what, text, 0

    @property
    def ended(self) -> bool:
        return self.place >= len(self.text)

    def starts(self, word: str) -> bool:
        return self.text.startswith(word, self.place)

    def take(self, word: str) -> bool:
        """Read a word if it comes next, and return whether it did."""
        found = self.starts(word)
        self.place += len(word) if found else 0
        return found

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.unreadable(f"`{word}`")

    def until(self, ends: str) -> str:
        """Read and return the text up to one of these characters."""
        found = _others(ends).match(self.text, self.place)
        assert found is not None
        self.place = found.end()
        return found.group()

    def quoted(self) -> str:
        """Read a text in double quotes, with backslashes before quotes and backslashes."""
        self.expect('"')
        result = ""
        while not self.ended:
            result += self.until('"\\')
            if self.take('"'):
                return result
            self.place += 1
            result += self.text[self.place : self.place + 1]
            self.place += 1
        raise self.unreadable('`"`')

    def name(self) -> str:
        found = self.quoted() if self.starts('"') else self.until(RESERVED).strip()
        if not found:
            raise self.unreadable("a name")
        return found

    def value(self, ends: str) -> str:
        return self.quoted() if self.starts('"') else self.until(ends)

    def unreadable(self, expected: str) -> RequestError:
        found = "its end" if self.ended else f"`{self.text[self.place : self.place + 20]}`"
        return unreadable(self.what, f"expected {expected} at character {self.place + 1}, not {found}")


def unreadable(what: str, why: str, hint: str | None = None) -> RequestError:
    """Return the error of a parameter that is not valid in the dialect."""
    return RequestError(UNREADABLE, f"`{what}`: {why}", hint)


@_remembered
def read_path(key: str) -> tuple[tuple[str, ...], bool]:
    """Return the path in a parameter's name, and whether its last name is quoted and therefore a column.

    `hours.temp` is a relationship and its column.
    """
    text = _TextCursor(key, key)
    names: list[str] = []
    while True:
        quoted = text.starts('"')
        names.append(text.name())
        if text.ended:
            return tuple(names), quoted
        text.expect(".")
        _check_depth(key, len(names))


def read_test(what: str, column: str, said: str) -> Test:
    """Return the test of a column in a parameter's value, like `eq.5` or `not.in.(1,2)`.

    The tested value is the whole rest of the text, including quotes.
    """
    text = _TextCursor(what, said)
    negated, operator = _operator(text)
    if operator == "in":
        test = Test(column, operator, _list(text), negated)
        if not text.ended:
            raise text.unreadable("its end")
        return test
    return Test(column, operator, text.text[text.place :], negated)


def read_group(what: str, word: str, said: str, negated: bool) -> ConditionGroup:
    """Return the group in a value of `and`, `or`, `not.and` or `not.or`: `(a.eq.1,or(b.lt.2,not.and(...)))`."""
    text = _TextCursor(what, said)
    group = _group(text, word, negated, 1)
    if not text.ended:
        raise text.unreadable("its end")
    return group


def _group(text: _TextCursor, word: str, negated: bool, depth: int) -> ConditionGroup:
    _check_depth(text.what, depth)
    text.expect("(")
    parts = [_term(text, depth)]
    while text.take(","):
        parts.append(_term(text, depth))
    text.expect(")")
    return ConditionGroup(word, tuple(parts), negated)


def _term(text: _TextCursor, depth: int) -> Test | ConditionGroup:
    for negated in (False, True):
        for word in WORDS:
            opened = f"{'not.' if negated else ''}{word}"
            if text.starts(opened + "("):
                text.take(opened)
                return _group(text, word, negated, depth + 1)
    column = text.name()
    text.expect(".")
    negated, operator = _operator(text)
    value = _list(text) if operator == "in" else text.value(",)")
    return Test(column, operator, value, negated)


def _operator(text: _TextCursor) -> tuple[bool, str]:
    negated = text.take("not.")
    operator = text.until(".,()")
    if not operator or not text.take("."):
        raise unreadable(
            text.what, "the operator is missing: write `column=eq.value`", "write `eq.5`, `gt.5`, `like.A*`, `is.null`"
        )
    return negated, operator


def _list(text: _TextCursor) -> tuple[str, ...]:
    """Read a list of values: `(1,2,"a,b")`."""
    text.expect("(")
    if text.take(")"):
        return ()
    values = [text.value(",)")]
    while text.take(","):
        values.append(text.value(",)"))
    text.expect(")")
    return tuple(values)


def read_key(what: str, said: str, width: int) -> tuple[str, ...]:
    """Return the values of a key in a path. Several values are separated by commas; each may be in double quotes."""
    text = _TextCursor(what, said)
    if width == 1 and not text.starts('"'):
        return (said,)
    values = [text.value(",")]
    while text.take(","):
        values.append(text.value(","))
    if not text.ended or len(values) != width:
        raise unreadable(
            what, f"the key has {width} value{'s' * (width > 1)}", 'write `1,2`, and `"a,b"` for a value with a comma'
        )
    return tuple(values)


@_remembered
def read_select(what: str, said: str) -> tuple[Chosen, ...]:
    """Return the selection of `a,total:b,hours(temp)`; all columns for an empty text."""
    if not said.strip():
        return (Chosen("*"),)
    text = _TextCursor(what, said)
    chosen = _chosen_list(text, 1)
    if not text.ended:
        raise text.unreadable("`,`")
    return chosen


def _chosen_list(text: _TextCursor, depth: int) -> tuple[Chosen, ...]:
    _check_depth(text.what, depth)
    chosen = [_chosen(text, depth)]
    while text.take(","):
        chosen.append(_chosen(text, depth))
    return tuple(chosen)


def _chosen(text: _TextCursor, depth: int) -> Chosen:
    name, alias = text.name(), None
    if text.starts("::"):
        raise unreadable(text.what, "casts are not supported", "cast the column in a view of the script")
    if text.take(":"):
        name, alias = text.name(), name
    if text.starts("!"):
        hint = (
            f"filter by `{name}.COLUMN=...` for its rows; for rows that have some, define a view, or ask GraphQL "
            "for `some`"
        )
        raise unreadable(text.what, "`!inner` is not supported", hint)
    if text.starts("::") or text.starts("."):
        raise unreadable(
            text.what,
            f"`{text.text[text.place : text.place + 20]}` is not supported",
            "select columns and relationships",
        )
    if not text.take("("):
        return Chosen(name, alias)
    parts = _chosen_list(text, depth + 1)
    text.expect(")")
    return Chosen(name, alias, parts)


@_remembered
def read_order(what: str, said: str) -> tuple[Ordered, ...]:
    """Return the order of `a.desc.nullslast,b`."""
    text = _TextCursor(what, said)
    found = [_ordered(text)]
    while text.take(","):
        found.append(_ordered(text))
    if not text.ended:
        raise text.unreadable("`,`")
    return tuple(found)


def _ordered(text: _TextCursor) -> Ordered:
    column, words = text.name(), []
    while text.take("."):
        words.append(text.until(".,"))
    direction = words.pop(0) if words and words[0] in ("asc", "desc") else "asc"
    nulls = words.pop(0) if words and words[0] in ("nullsfirst", "nullslast") else None
    if words:
        raise unreadable(
            text.what, f"`{words[0]}` is not a direction", "write `asc` or `desc`, then `nullsfirst` or `nullslast`"
        )
    return Ordered(column, direction == "desc", None if nulls is None else nulls == "nullsfirst")


def _check_depth(what: str, depth: int) -> None:
    if depth > NESTED_MOST:
        raise RequestError(LIMIT_EXCEEDED, f"`{what}` is nested more than {NESTED_MOST} levels deep", "nest less")
