"""Plans of operations, cached by the operation's text without its literals.

In: text, variables, a `Model` with its GraphQL schema. Out: a `Prepared` request: a statement with the values to bind.
A text that differs only in literals from an earlier one is neither parsed nor validated again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from threading import Lock
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    get_named_type,
    parse,
    type_from_ast,
)
from graphql.execution.values import get_variable_values

from belvedere.api.failures import (
    BAD_REQUEST,
    BAD_VALUE,
    LIMIT_EXCEEDED,
    SYNTAX,
    InvalidDocument,
    RequestError,
    no_cursor,
)
from belvedere.api.graphql.documents import check_document, fragments_of
from belvedere.api.graphql.literals import Literals, take_out
from belvedere.api.graphql.selections import Selection, SelectionReader
from belvedere.api.limits import NESTED_MOST, Limits, are_many
from belvedere.api.reads.argument_values import ArgumentValues, ValueSource, look_up, shape
from belvedere.api.reads.bound_values import CursorToDecode
from belvedere.api.reads.costs import Cost
from belvedere.api.reads.entities import Model
from belvedere.api.reads.planning import PlannedRead, ReadPlanner
from belvedere.catalog.templates import Parameter
from belvedere.errors import BelvedereError
from belvedere.intake.claims import NO_ONE, Claims, claim_value
from belvedere.store.protocol import AnsweringReader
from belvedere.store.read.query import Field, endpoints_read
from belvedere.store.read.statements import ParameterizedSql, print_read
from belvedere.store.read.stored_values import long_number, microseconds

REMEMBERED = 2_000
"""Maximum number of cached operations, and of cached plans per operation."""
SHORT = 10_000
"""Maximum characters of a text that is cached and handled on the event loop."""
CLAIM_SOURCES = ("claim", "claimed")
"""Kinds of value sources that read a claim of the caller's token."""
_REMEMBERING = Lock()


@dataclass
class Plan:
    """A read with its SQL. `calls`: number of executions; `last`: seconds of the last measured one in this process."""

    draft: PlannedRead
    statement: ParameterizedSql
    fixed_cost: bool
    calls: int = 0
    last: float = 0.0

    @cached_property
    def endpoints(self) -> tuple[str, ...]:
        """Return the relations and query templates that the plan reads."""
        return tuple(dict.fromkeys(endpoints_read(self.draft.read.fields)))


@dataclass
class Operation:
    """A valid operation, and its plans by the shape of its variables."""

    document: DocumentNode
    node: OperationDefinitionNode
    fragments: Mapping[str, FragmentDefinitionNode]
    literals: Mapping[int, int]
    enums: frozenset[str]
    introspects: bool
    plans: dict[Any, Plan] = field(default_factory=dict)

    @property
    def mutates(self) -> bool:
        """Return whether the operation is a mutation."""
        return self.node.operation is OperationType.MUTATION

    @property
    def subscribes(self) -> bool:
        """Return whether the operation is a subscription."""
        return self.node.operation is OperationType.SUBSCRIPTION


@dataclass(frozen=True)
class Prepared:
    """A plan and the values to bind."""

    plan: Plan
    parameters: list[Any]
    instants: tuple[tuple[str, int, bool], ...] = ()
    """Former states that the plan reads: relation, epoch or time in microseconds, and whether it is a time."""
    longs: bool = False
    """Whether 64-bit integers are strings in the answer."""
    own: tuple[str, ...] = ()
    """Pages of the answer whose parts besides the rows are internal."""


@dataclass
class Operations:
    """The cached operations of one model and dialect."""

    model: Model
    schema: GraphQLSchema
    reader: AnsweringReader
    limits: Limits
    lenient: GraphQLSchema
    """Schema in which rows of mutations may have any form."""
    seen: dict[tuple[str, str | None], Operation] = field(default_factory=dict)
    texts: dict[tuple[str, str | None], tuple[Operation, list[Any]]] = field(default_factory=dict)
    misses: int = 0

    def find(self, text: str, name: str | None) -> tuple[Operation, list[Any]]:
        """Return the operation of a text, and the text's literals."""
        found = self.texts.get((text, name))
        if found is not None:
            return found
        literals = _literals(text)
        operation = self.seen.get((literals.rest, name))
        if operation is None:
            operation = self._read(text, name, literals)
            if not (operation.introspects or operation.mutates):  # rows are read from the document itself
                remember(self.seen, (literals.rest, name), operation)
        if len(text) < SHORT:
            remember(self.texts, (text, name), (operation, literals.values))
        return operation, literals.values

    def known(self, text: str, name: str | None) -> tuple[Operation, list[Any]] | None:
        """Return what `find` returns, without parsing; None if the text is long or not cached."""
        if len(text) >= SHORT:
            return None
        found = self.texts.get((text, name))
        return found or (self.find(text, name) if (_literals(text).rest, name) in self.seen else None)

    def known_plan(
        self, operation: Operation, literals: list[Any], variables: Mapping[str, Any], claims: Claims = NO_ONE
    ) -> Prepared | None:
        """Return what `prepare` returns if the plan is cached and there are few variables, else None."""
        plan = None if are_many(variables) else operation.plans.get(_shape(operation, variables))
        if plan is None:
            return None
        self.check_variables(operation, variables)
        return self.bound(plan, literals, variables, claims)

    def prepare(
        self, operation: Operation, literals: list[Any], variables: Mapping[str, Any], claims: Claims = NO_ONE
    ) -> Prepared:
        """Return the plan for a request of a caller with these claims, with its values in the store's form."""
        self.check_variables(operation, variables)
        key = _shape(operation, variables)
        plan = operation.plans.get(key)
        if plan is None:
            plan = self._plan(operation, literals, variables)
            remember(operation.plans, key, plan)
        return self.bound(plan, literals, variables, claims)

    def bound(self, plan: Plan, literals: list[Any], variables: Mapping[str, Any], claims: Claims = NO_ONE) -> Prepared:
        """Return a plan with the values of a request."""
        instants = tuple(
            (r, _instant(plan, n, by_time, literals, variables), by_time) for r, n, by_time in plan.draft.instants
        )
        return Prepared(plan, self.bind(plan, literals, variables, claims), instants)

    def bind(self, plan: Plan, literals: list[Any], variables: Mapping[str, Any], claims: Claims = NO_ONE) -> list[Any]:
        """Return the values of a request in the store's form, in the order of the statement's parameters."""
        draft = plan.draft
        cursors = [_decoded(look_up(c.source, literals, variables), c) for c in draft.cursors]
        said: dict[str, Callable[[ValueSource], Any]] = {
            "cursor": lambda s: cursors[s[1]][s[2]],
            "claim": lambda s: _claimed(s[1], s[2], claims),
            "claimed": lambda s: _claimed_or_none(s[1], claims),
        }
        values = [said[s[0]](s) if s[0] in said else look_up(s, literals, variables) for s in draft.sources]
        try:
            parameters = plan.statement.bind(values)
        except ValueError as error:
            message, number = error.args
            if draft.sources[number][0] == "cursor":
                raise no_cursor(draft.names[number]) from None
            raise RequestError(BAD_VALUE, f"`{draft.names[number]}`: {message}") from None
        for number in draft.bounded:
            if values[number] > self.limits.most_rows:
                message = (
                    f"`{draft.names[number]}`: must be between 0 and {self.limits.most_rows}, not {values[number]}"
                )
                raise RequestError(LIMIT_EXCEEDED, message, "read page by page")
        if not plan.fixed_cost:
            self._check_cost(draft.costs, literals, variables)
        return parameters

    # texts that are not cached

    def _read(self, text: str, name: str | None, literals: Literals) -> Operation:
        self.misses += 1
        _check_nesting(text)
        try:
            document = parse(text, max_tokens=self.limits.tokens)
        except GraphQLError as error:
            raise InvalidDocument(SYNTAX, [error]) from None
        node = _chosen(document, name)
        mutates = node.operation is OperationType.MUTATION
        if node.operation is OperationType.SUBSCRIPTION and self.schema.subscription_type is None:
            raise RequestError(
                BAD_REQUEST,
                "this script has no view or subscription to subscribe to",
                "define a view, or CREATE SUBSCRIPTION S ON ADD AS ...",
            )
        if mutates and self.schema.mutation_type is None:
            hint = "declare an input: CREATE STREAM or CREATE TABLE"
            raise RequestError(BAD_REQUEST, "no input of this script accepts rows", hint)
        fragments = fragments_of(document)
        check_document(self.lenient if mutates else self.schema, document, fragments, self.limits)
        numbers = {offset: number for number, offset in enumerate(literals.offsets)}
        introspects = node.operation is OperationType.QUERY and _introspects(node.selection_set, fragments)
        return Operation(document, node, fragments, numbers, self._enums(node), introspects)

    def _enums(self, node: OperationDefinitionNode) -> frozenset[str]:
        """Return the variables that hold sort directions: their strings are part of the plan."""
        result = set()
        for definition in node.variable_definitions or ():
            type_ = type_from_ast(self.schema, definition.type)
            named = get_named_type(type_).name if type_ is not None else ""
            if named == "SortOrder" or named in self._orders:
                result.add(definition.variable.name.value)
        return frozenset(result)

    @cached_property
    def _orders(self) -> frozenset[str]:
        """Return the names of the input types for orders."""
        entities = self.model.entities.values()
        return frozenset(
            n for e in entities for n in (e.order_type, e.types["AggregateOrder"], e.types["NumbersOrder"])
        )

    def _plan(self, operation: Operation, literals: list[Any], variables: Mapping[str, Any]) -> Plan:
        draft = self.planner(operation, variables).plan(self.selections(operation, variables))
        return self.printed(draft, literals, variables)

    def printed(self, draft: PlannedRead, literals: list[Any], variables: Mapping[str, Any]) -> Plan:
        """Return a read with its SQL. Raises if a request with these values costs too much."""
        self._check_cost(draft.costs, literals, variables)
        return Plan(draft, print_read(draft.read, self.reader.dialect), not any(map(_varies, draft.costs)))

    def check_variables(self, operation: Operation, variables: Mapping[str, Any]) -> None:
        """Raise if a variable does not have a value of its type. Every request is checked, with or without a cached
        plan."""
        definitions = operation.node.variable_definitions
        if not definitions:
            return
        coerced = get_variable_values(self.schema, definitions, dict(variables), max_errors=5)
        if isinstance(coerced, list):
            raise InvalidDocument(BAD_VALUE, coerced)

    def plan_of(self, planner: ReadPlanner, read: Field, cost: Cost) -> Plan:
        """Return the plan of one query."""
        self._check_cost((cost,), [], {})
        draft = planner.planned((read,), (cost,))
        return Plan(draft, print_read(draft.read, self.reader.dialect), fixed_cost=True)

    def planner(self, operation: Operation, variables: Mapping[str, Any]) -> ReadPlanner:
        """Return the planner for one request of an operation."""
        return ReadPlanner(self.model, self.limits, self._reader(operation, variables).values.scalar)

    def selections(self, operation: Operation, variables: Mapping[str, Any]) -> tuple[Selection, ...]:
        """Return the selections of an operation."""
        return self._reader(operation, variables).read((operation.node.selection_set,))

    def root_fields(self, operation: Operation, variables: Mapping[str, Any]) -> dict[str, list[FieldNode]]:
        """Return the root fields of a request by response key."""
        return self._reader(operation, variables).collect((operation.node.selection_set,))

    def _reader(self, operation: Operation, variables: Mapping[str, Any]) -> SelectionReader:
        declared = {d.variable.name.value for d in operation.node.variable_definitions or ()}
        given = {n: v for n, v in variables.items() if n in declared}
        values = ArgumentValues(operation.node, given, operation.literals, self.limits)
        return SelectionReader(values, operation.fragments)

    def _check_cost(self, costs: tuple[Cost, ...], literals: list[Any], variables: Mapping[str, Any]) -> None:
        total = sum(_total(c, literals, variables) for c in costs)
        if total > self.limits.cost:
            hint = "use smaller limits, or split the request"
            raise RequestError(LIMIT_EXCEEDED, f"the request costs {total}, the limit is {self.limits.cost}", hint)


def _instant(plan: Plan, number: int, by_time: bool, literals: list[Any], variables: Mapping[str, Any]) -> int:
    """Return the epoch, or the time in microseconds, that a request gives. Invalid values are reported when they are
    bound."""
    value = look_up(plan.draft.sources[number], literals, variables)
    try:
        return microseconds(value) if by_time else long_number(value)
    except ValueError as error:
        raise RequestError(BAD_VALUE, f"`{plan.draft.names[number]}`: {error.args[0]}") from None


def only_fields(operation: Operation, nodes: list[FieldNode]) -> DocumentNode:
    """Return the operation reduced to these root fields."""
    definition = replace(operation.node, selection_set=SelectionSetNode(selections=tuple(nodes)))
    return DocumentNode(definitions=(definition, *operation.fragments.values()))


def _shape(operation: Operation, variables: Mapping[str, Any]) -> Any:
    return tuple((n, shape(v, n in operation.enums)) for n, v in variables.items()) if variables else ()


def _literals(text: str) -> Literals:
    try:
        return take_out(text)
    except ValueError:
        raise RequestError(SYNTAX, "a string with a broken escape sequence") from None


def remember(remembered: dict[Any, Any], key: Any, value: Any) -> None:
    """Cache a value and drop the oldest one above the maximum. Several threads plan at the same time."""
    with _REMEMBERING:
        if len(remembered) >= REMEMBERED:
            remembered.pop(next(iter(remembered)), None)
        remembered[key] = value


def _total(cost: Cost, literals: list[Any], variables: Mapping[str, Any]) -> int:
    limit = cost.limit if isinstance(cost.limit, int) else look_up(cost.limit, literals, variables)
    return int(limit) * (1 + cost.fields + sum(_total(c, literals, variables) for c in cost.nested))


def _varies(cost: Cost) -> bool:
    return not isinstance(cost.limit, int) or any(map(_varies, cost.nested))


def _decoded(cursor: Any, requested: CursorToDecode) -> list[Any]:
    """Return a cursor's values: see `cursor_text` in `belvedere.store.read.pages`."""
    try:
        found = json.loads(base64.b16decode(cursor))
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != requested.width + 1 or found[0] != requested.mark:
        raise no_cursor(requested.name)
    return found[1:]


def _claimed(template: str, parameter: Parameter, claims: Claims) -> Any:
    """Return a claim of the caller's token in the form of a client's argument."""
    assert parameter.metadata is not None
    try:
        return _as_given(claim_value(parameter.metadata, parameter.type, claims, f"`{template}`"))
    except BelvedereError as error:
        reported = error.diagnostics[0]
        raise RequestError(reported.code, reported.message, reported.hint, status=403) from None


def _claimed_or_none(parameter: Parameter, claims: Claims) -> Any:
    """Return the claim for a role's row condition. If the token lacks it, or its type differs, the caller sees no
    row."""
    assert parameter.metadata is not None
    try:
        return _as_given(claim_value(parameter.metadata, parameter.type, claims, ""))
    except BelvedereError:
        return None


def _as_given(found: Any) -> Any:
    if isinstance(found, datetime):
        return found.isoformat().replace("+00:00", "Z")
    return str(found) if isinstance(found, date | Decimal) else found


def _check_nesting(text: str) -> None:
    """Raise if brackets are nested so deeply that the parser's stack would overflow."""
    depth = 0
    for character in text:
        if character in "{[(":
            depth += 1
            if depth > NESTED_MOST:
                raise RequestError(
                    LIMIT_EXCEEDED, f"brackets are nested more than {NESTED_MOST} levels deep", "nest less"
                )
        elif character in "}])":
            depth -= 1


def _chosen(document: DocumentNode, name: str | None) -> OperationDefinitionNode:
    operations = [d for d in document.definitions if isinstance(d, OperationDefinitionNode)]
    if name is not None:
        operations = [o for o in operations if o.name is not None and o.name.value == name]
    if len(operations) != 1:
        if name is None and len(operations) > 1:
            raise RequestError(BAD_REQUEST, "the document has several operations", "name one in `operationName`")
        raise RequestError(BAD_REQUEST, "the document has no operation" + (f' "{name}"' if name else ""))
    return operations[0]


def _introspects(selections: SelectionSetNode, fragments: Mapping[str, FragmentDefinitionNode]) -> bool:
    for node in selections.selections:
        if isinstance(node, FieldNode) and node.name.value in ("__schema", "__type"):
            return True
        if isinstance(node, InlineFragmentNode) and _introspects(node.selection_set, fragments):
            return True
        if isinstance(node, FragmentSpreadNode) and _introspects(fragments[node.name.value].selection_set, fragments):
            return True
    return False
