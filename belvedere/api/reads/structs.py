"""Columns with objects (STRUCT) in the API: a type with fields, and a filter on them.

In: a column's Arrow type. Out: a `StructType`, or None if its members cannot be selected; such a column stays JSON.
Members that are lists or maps stay JSON. A client's names become a path of names of the type, so no text of the client
reaches SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from belvedere.api.reads.graphql_names import Namespace, graphql_name
from belvedere.schema import Column

UNSAID = frozenset('"\\')
"""Characters of members' names that SQLite's JSON paths cannot express."""


@dataclass(frozen=True)
class Member:
    """A member of an object: its original name, its type, and its own `StructType` if it is an object."""

    name: str
    type: pa.DataType
    struct: StructType | None = None


@dataclass(frozen=True)
class StructType:
    """The GraphQL name of an object type, its filter, and its members by GraphQL name."""

    type_name: str
    filter_type: str
    members: Mapping[str, Member]

    def walk(self) -> Iterator[StructType]:
        """Yield this type and the object types in it."""
        yield self
        for member in self.members.values():
            if member.struct is not None:
                yield from member.struct.walk()


def structs_of(columns: Mapping[str, Column], owner: str, types: Namespace) -> dict[str, StructType]:
    """Return the columns with objects by GraphQL name; `owner` is the name of their row's type."""
    found = ((name, struct_of(column.type, f"{owner}_{name}", types)) for name, column in columns.items())
    return {name: struct for name, struct in found if struct is not None}


def struct_of(type_: pa.DataType, name: str, types: Namespace) -> StructType | None:
    """Return a type in GraphQL's form; None if it is not an object, or a path cannot express its members' names."""
    if (
        not pa.types.is_struct(type_)
        or not type_.num_fields
        or any(UNSAID & set(f.name) or not f.name.isprintable() for f in type_)
    ):
        return None
    claimed, filter_type = types.claim(name), types.claim(f"{name}Filter")
    names, members = Namespace(), dict[str, Member]()
    for field in type_:
        shown = names.claim(graphql_name(field.name))
        members[shown] = Member(field.name, field.type, struct_of(field.type, f"{name}_{shown}", types))
    return StructType(claimed, filter_type, members)


def each_struct(structs: Mapping[str, StructType]) -> Iterator[StructType]:
    """Yield all object types of the columns, including nested ones."""
    for struct in structs.values():
        yield from struct.walk()
