"""What may follow in a query: relations after FROM, columns after a table's name, else columns, functions and keywords.

In: the text before and after the cursor, the columns of relations. Out: words. It knows no terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from belvedere.functions.table import FUNCTIONS

KEYWORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER BY LIMIT OFFSET JOIN LEFT RIGHT FULL INNER ON USING AS AND OR NOT IN IS NULL LIKE "
    "BETWEEN CASE WHEN THEN ELSE END DISTINCT UNION ALL EXCEPT INTERSECT WITH EXISTS ASC DESC NULLS FIRST LAST CAST INTERVAL DATE "
    "TIMESTAMP TRUE FALSE OVER PARTITION"
).split()
COMMANDS = ("\\d", "\\f", "\\format", "\\timing", "\\q", "help")
FUNCTION_NAMES = tuple(sorted({name.lower() for f in FUNCTIONS for name in f.calls if name.isidentifier()}))
_NAME = r"(?:`[^`]+`|\w+)"
_BEFORE = re.compile(rf"(?:({_NAME})\.)?`?(\w*)$")
_CLAUSE = re.compile(r"\b(FROM|JOIN|SELECT|WHERE|ON|USING|GROUP|HAVING|ORDER|LIMIT|UNION|EXCEPT|INTERSECT)\b", re.IGNORECASE)
_NO_ALIAS = rf"(?!(?:{'|'.join(KEYWORDS)})\b)"
_SOURCE = re.compile(rf"({_NAME})(?:\s+(?:AS\s+)?{_NO_ALIAS}({_NAME}))?\s*(?:,\s*|$|(?=\s|\)|;))", re.IGNORECASE)


@dataclass(frozen=True)
class Words:
    """The names that a query may use: columns by relation, query templates."""

    columns: Mapping[str, Sequence[str]]
    templates: Sequence[str] = ()

    def after(self, text: str, rest: str = "") -> Iterator[tuple[str, int]]:
        """The words that may stand between `text` and `rest`, each with how many characters at the end of `text` it replaces."""
        if text.lstrip().startswith("\\"):
            yield from self._of_command(text.lstrip())
            return
        found = _BEFORE.search(text)
        assert found is not None
        qualifier, begun = found[1], found[2]
        tick = int(text[: found.start(2)].endswith("`"))
        for word in self._candidates(text[: found.start(2)], rest, qualifier):
            if word.casefold().startswith(begun.casefold()) and word != begun:
                yield quoted(word), len(begun) + tick

    def _candidates(self, text: str, rest: str, qualifier: str | None) -> Iterator[str]:
        sources = sources_of(text + " " + rest)
        if qualifier is not None:
            relation = sources.get(qualifier.strip("`").casefold(), qualifier.strip("`"))
            yield from next((c for n, c in self.columns.items() if n.casefold() == relation.casefold()), ())
            return
        if _names_source(text):
            yield from self.columns
            return
        named = {r.casefold() for r in sources.values()}
        yield from dict.fromkeys(c for n, cs in self.columns.items() if n.casefold() in named for c in cs)
        yield from dict.fromkeys(KEYWORDS)
        yield from self.templates
        yield from FUNCTION_NAMES
        if not named:
            yield from dict.fromkeys(c for cs in self.columns.values() for c in cs)

    def _of_command(self, text: str) -> Iterator[tuple[str, int]]:
        word, space, begun = text.partition(" ")
        names = [*self.columns, *self.templates] if word == "\\d" else ["table", "json", "csv"] if word == "\\format" else []
        for name in names if space else COMMANDS:
            start = begun if space else word
            if name.casefold().startswith(start.casefold()):
                yield name, len(start)


def _names_source(text: str) -> bool:
    """Whether a relation's name comes next: behind FROM, JOIN, or a comma in FROM."""
    clauses = list(_CLAUSE.finditer(text))
    if not clauses or clauses[-1][1].upper() not in ("FROM", "JOIN"):
        return False
    behind = text[clauses[-1].end() :].strip().rstrip("`").rstrip()
    return behind in ("", "(") or behind.endswith(",")


def sources_of(text: str) -> dict[str, str]:
    """What FROM and JOIN name: relations by their folded aliases, and by themselves."""
    found, pieces = dict[str, str](), _CLAUSE.split(text)
    for clause, named in zip(pieces[1::2], pieces[2::2], strict=True):
        if clause.upper() in ("FROM", "JOIN"):
            for name, alias in _SOURCE.findall(named):
                found |= {key.strip("`").casefold(): name.strip("`") for key in (name, alias) if key}
    return found


def quoted(name: str) -> str:
    """A name as a query writes it."""
    return name if name.isidentifier() and name.isascii() else f"`{name}`" if "`" not in name else name
