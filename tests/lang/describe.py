"""Statements as text for golden files."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

from sqlglot import exp

from belvedere.errors import Diagnostic, Span
from belvedere.syntax.statement_tree import DottedName, InputClauses, Part, Statement


def describe(statement: Statement) -> str:
    """`Kind` and one line per field that says something."""
    lines = [type(statement).__name__]
    for name, value in said(statement):
        lines.append(f"  {name}: {value}")
    return "\n".join(lines)


def said(thing: Any) -> list[tuple[str, str]]:
    """Fields that are not empty, as text."""
    found = []
    for field in fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, InputClauses):
            found += said(value)
        elif isinstance(value, Span) and field.name == "history":
            found.append((field.name, "True"))
        elif not isinstance(value, Span) and value not in (None, (), False):
            found.append((field.name, show(value)))
    return found


def show(value: Any) -> str:
    """A field's value as text."""
    if isinstance(value, tuple):
        return ", ".join(show(v) for v in value)
    if isinstance(value, Part):
        return f"`{value.text}`" if value.quoted else value.text
    if isinstance(value, DottedName):
        return ".".join(show(p) for p in value.parts)
    if isinstance(value, exp.Expr):
        return " ".join(value.sql("sqrl", comments=False).split())
    if isinstance(value, Enum):
        return value.name
    if hasattr(value, "__dataclass_fields__"):
        return "(" + "; ".join(f"{n} {v}" for n, v in said(value)) + ")"
    return str(value).replace("\n", " | ")


def places(diagnostics: tuple[Diagnostic, ...], text: str) -> str:
    """Where each diagnostic points, as text of the script."""
    return "\n".join(f"{d.code} at {text[d.span.start : d.span.end]!r}" for d in diagnostics if d.span)
