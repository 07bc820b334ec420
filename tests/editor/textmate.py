"""A small interpreter of TextMate grammars, enough to test the highlighting of scripts.

In: a grammar, a text. Out: the scope names at each character. As in editors a text is read line by line, and of
patterns that match the leftmost one counts, of those the first. Patterns are compiled by Python's `re`, whose syntax
the grammar keeps to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

compiled = cache(re.compile)


@dataclass(frozen=True)
class _Open:
    """A rule that has begun: what ends it, its rules, the scopes within."""

    rule: Mapping[str, Any]
    scopes: tuple[str, ...]


def colours(grammar: Mapping[str, Any], text: str) -> list[tuple[str, ...]]:
    """The scopes of each character of a text, the innermost last."""
    found: list[tuple[str, ...]] = []
    stack = [_Open(grammar, ())]
    for line in text.splitlines(keepends=True):
        at, spent = 0, len(line) * 4 + 20
        scopes = [stack[-1].scopes] * len(line)
        while at <= len(line) and spent:
            spent -= 1
            at = _step(grammar, stack, line, at, scopes)
        assert spent, f"no end of {line!r}"
        found += scopes
    return found


def _step(grammar: Mapping[str, Any], stack: list[_Open], line: str, at: int, scopes: list[tuple[str, ...]]) -> int:
    """Take the next match of a line; gives the place behind it, behind the line where there is none."""
    top = stack[-1]
    matches = [
        (found, rule)
        for rule in rules(grammar, top.rule)
        if (found := compiled(rule.get("match") or rule["begin"]).search(line, at))
    ]
    end = compiled(top.rule["end"]).search(line, at) if "end" in top.rule else None
    first = min(matches, key=lambda m: m[0].start(), default=None)
    if end is not None and (first is None or end.start() <= first[0].start()):
        _paint(scopes, end.start(), end.end(), top.scopes)
        stack.pop()
        _paint(scopes, end.end(), len(line), stack[-1].scopes)
        return end.end()
    if first is None:
        return len(line) + 1
    found, rule = first
    inside = (*top.scopes, *((rule["name"],) if "name" in rule else ()))
    _paint(scopes, found.start(), found.end(), inside)
    for group, capture in (rule.get("captures") or rule.get("beginCaptures") or {}).items():
        _paint(scopes, *found.span(int(group)), (*inside, capture["name"]))
    if "begin" in rule:
        stack.append(_Open(rule, inside))
        _paint(scopes, found.end(), len(line), inside)
    return found.end() if found.end() > at or "begin" in rule else at + 1


def _paint(scopes: list[tuple[str, ...]], start: int, end: int, names: tuple[str, ...]) -> None:
    scopes[start:end] = [names] * (end - start)


def rules(grammar: Mapping[str, Any], rule: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The rules within one, with those that it includes."""
    for inner in rule.get("patterns", ()):
        target = inner.get("include")
        if target == "$self":
            yield from rules(grammar, grammar)
        elif target is not None and ("match" in (named := grammar["repository"][target[1:]]) or "begin" in named):
            yield named
        elif target is not None:
            yield from rules(grammar, grammar["repository"][target[1:]])
        else:
            yield inner
