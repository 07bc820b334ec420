"""The mutations of a catalog: a field per input that accepts pushes, with the types of its rows and of its answer.

In: inputs, and the names that the schema uses. Out: `PushField`s, and the GraphQL type `Mutation` with these fields.
With `lenient` rows may have any form: the intake validates them one by one, like those of `POST /streams`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from graphql import (
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLString,
)

from belvedere.api.graphql.scalars import literal_value
from belvedere.api.reads.graphql_names import Namespace, first_lower, graphql_name
from belvedere.catalog.catalog import Catalog, pushed_inputs
from belvedere.catalog.inputs import Input
from belvedere.catalog.shown_names import IMPORTED
from belvedere.intake.request_rows import DELETE, given_columns, key_columns
from belvedere.schema import Column

TAKEN, DROPPED, REFUSED = "TAKEN", "DROPPED", "REFUSED"
STATUS = GraphQLEnumType(
    "PushStatus",
    {TAKEN: TAKEN, DROPPED: DROPPED, REFUSED: REFUSED},
    description="TAKEN: the row is on disk. DROPPED: the row is late, and its input drops late rows. REFUSED: "
    "`reason` says why.",
)


@dataclass(frozen=True)
class PushField:
    """An input as a mutation: the name of the field, the prefix of its types' names, its columns by GraphQL name."""

    name: str
    type_name: str
    table: Input
    columns: Mapping[str, Column]
    shown: Mapping[str, Column]
    """The columns of an accepted row, including those that the intake fills."""

    @property
    def deletes(self) -> bool:
        """Return whether a row may delete the row with its key."""
        return bool(self.table.primary_key) and self.table.schema.find(DELETE) is None


def push_fields(catalog: Catalog, types: Namespace) -> dict[str, PushField]:
    """Return the mutations of a catalog by name; private inputs accept pushes too. `types` are the type names in
    use."""
    fields = Namespace()
    result: dict[str, PushField] = {}
    for table in pushed_inputs(catalog).values():
        if "~" in table.id and not table.name.endswith(IMPORTED):  # an earlier definition of the name
            continue
        given = {
            c.name: c for c in (*given_columns(table), *key_columns(table))
        }  # a deletion names an identity that was made here
        if not given:
            continue
        type_name = graphql_name(table.name.removesuffix(IMPORTED).lstrip("_"))
        name = fields.claim(first_lower(type_name))
        while any(f"{type_name}{end}" in types for end in ("Input", "Push", "PushResult", "PushRow")):
            type_name += "_"
        for end in ("Input", "Push", "PushResult", "PushRow"):
            types.claim(f"{type_name}{end}")
        columns = Namespace((DELETE,))
        pushed = {columns.claim(graphql_name(n)): c for n, c in given.items()}
        made = {columns.claim(graphql_name(n)): table.schema[n] for n in table.metadata if n not in given}
        result[name] = PushField(name, type_name, table, pushed, pushed | made)
    return result


ScalarOf = Callable[[Column], GraphQLScalarType]


def mutation_type(
    pushes: Iterable[PushField], scalar: ScalarOf, long: GraphQLScalarType, instant: GraphQLScalarType, lenient: bool
) -> GraphQLObjectType | None:
    """Return the type `Mutation`; None if no input accepts pushes. `scalar` returns the type of a column's values."""
    fields = {p.name: _field(p, scalar, long, instant, lenient) for p in pushes}
    return GraphQLObjectType("Mutation", fields) if fields else None


def _field(
    push: PushField, scalar: ScalarOf, long: GraphQLScalarType, instant: GraphQLScalarType, lenient: bool
) -> GraphQLField:
    shown = push.table.name
    row: GraphQLScalarType | GraphQLInputObjectType = _any_row(push) if lenient else _row(push, scalar)
    arguments = {
        "rows": GraphQLArgument(
            GraphQLNonNull(GraphQLList(GraphQLNonNull(row))),
            description="One row, or a list. A row that does not fit is rejected; the others are accepted.",
        ),
        "producer": GraphQLArgument(
            GraphQLString, description="The producer that sends the rows; bounds hold per producer."
        ),
        "key": GraphQLArgument(
            GraphQLString,
            description="A key of this request: a repeated request with the same key counts once within 24 hours.",
        ),
        "wait": GraphQLArgument(
            GraphQLBoolean,
            False,
            description="true: answer when an epoch has processed the rows; false: when they are on disk.",
        ),
    }
    described = push.table.doc or f"Push rows of {shown}, as `POST /streams/{shown}` does."
    return GraphQLField(_answer(push, scalar, long, instant), args=arguments, description=described)


def _row(push: PushField, scalar: ScalarOf) -> GraphQLInputObjectType:
    def fields() -> dict[str, GraphQLInputField]:
        found = {}
        for name, column in push.columns.items():
            type_ = scalar(column)
            found[name] = GraphQLInputField(
                type_
                if column.nullable
                or column.hidden
                or column.name in push.table.metadata
                or column.name in push.table.defaults
                or (push.deletes and column.name not in push.table.primary_key)
                else GraphQLNonNull(type_),
                description=column.doc,
            )
        if push.deletes:
            found[DELETE] = GraphQLInputField(GraphQLBoolean, description="true: delete the row with this key.")
        return found

    return GraphQLInputObjectType(f"{push.type_name}Input", fields, description=f"A row of {push.table.name}.")


def _any_row(push: PushField) -> GraphQLScalarType:
    return GraphQLScalarType(f"{push.type_name}Input", parse_value=lambda v: v, parse_literal=literal_value)


def _answer(
    push: PushField, scalar: ScalarOf, long: GraphQLScalarType, instant: GraphQLScalarType
) -> GraphQLObjectType:
    number, text = GraphQLNonNull(GraphQLInt), GraphQLString
    row = GraphQLObjectType(
        f"{push.type_name}PushRow", {n: GraphQLField(scalar(c), description=c.doc) for n, c in push.shown.items()}
    )
    result = GraphQLObjectType(
        f"{push.type_name}PushResult",
        {
            "index": GraphQLField(number, description="Its position in the request, from 0."),
            "status": GraphQLField(GraphQLNonNull(STATUS)),
            "row": GraphQLField(row, description="The row as it was accepted; null if it was not."),
            "code": GraphQLField(text, description="The code of the reason: `belvedere explain CODE`."),
            "reason": GraphQLField(text, description="Why the row was rejected."),
            "bound": GraphQLField(instant, description="The bound that the late row is below."),
        },
    )
    epoch = "The epoch that processed the rows, if the request waited for it; null: the next epoch processes them."
    return GraphQLObjectType(
        f"{push.type_name}Push",
        {
            "taken": GraphQLField(number, description="The number of accepted rows."),
            "dropped": GraphQLField(number, description="The number of dropped late rows."),
            "refused": GraphQLField(number, description="The number of rejected rows."),
            "epoch": GraphQLField(long, description=epoch),
            "results": GraphQLField(
                GraphQLNonNull(GraphQLList(GraphQLNonNull(result))), description="The result of each row."
            ),
        },
    )
