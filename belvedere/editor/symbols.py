"""Symbols: the meanings of names, their uses, and the columns and symbols of relations.

In: nothing, or a known relation. Out: plain values.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.editor.known_relations import KnownRelation


@dataclass(frozen=True)
class Symbol:
    """Meaning of a name: its kind, the file and the relation (or position) that it belongs to, and its folded name."""

    kind: str
    file: str
    of: str
    name: str


@dataclass(frozen=True)
class Use:
    """A name at a place.

    `defines`: the name is defined here. `bare`: it is a whole item of SELECT, or the table of a source in IMPORT; the
    column or relation takes its name from it.
    """

    start: int
    end: int
    symbol: Symbol
    defines: bool = False
    bare: bool = False


@dataclass(frozen=True)
class KnownColumn:
    """A column: its type if known, and the text that computes it if that is in the same statement."""

    name: str
    symbol: Symbol
    type: pa.DataType | None = None
    nullable: bool = True
    text: str = ""
    hidden: bool = False
    doc: str | None = None


def fields(type_: pa.DataType | None) -> list[pa.Field]:
    """Return the fields of a struct, or of the structs in an array."""
    if type_ is not None and pa.types.is_list(type_):
        type_ = type_.value_type
    return list(type_) if type_ is not None and pa.types.is_struct(type_) else []


def folded_home(relation: KnownRelation) -> tuple[str, str]:
    """Return the file and the folded name under which a relation is defined."""
    return relation.home[0], relation.home[1].casefold()


def relation_symbol(relation: KnownRelation) -> Symbol:
    """Return the symbol of a relation's name."""
    return Symbol("relation", relation.home[0], "", relation.home[1].casefold())


def member(relation: KnownRelation, name: str, kind: str) -> Symbol:
    """Return the symbol of a column or a relationship of a relation."""
    return Symbol(kind, *folded_home(relation), name.casefold())


def field_symbol(of: Symbol, name: str) -> Symbol:
    """Return the symbol of a field of a symbol's value."""
    return Symbol("field", of.file, f"{of.of}.{of.name}", name.casefold())


def columns(relation: KnownRelation | None) -> list[KnownColumn]:
    """Return the columns of a relation."""
    if relation is None:
        return []
    return [
        KnownColumn(c.name, member(relation, c.name, "column"), c.type, c.nullable, "", c.hidden, c.doc)
        for c in relation.schema
    ]
