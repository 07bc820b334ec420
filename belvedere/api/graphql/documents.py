"""Validation of parsed documents against a schema, after checks that bound its cost.

In: a document as graphql-core parsed it, the schema, the limits. Out: nothing, or a `RequestError`. The size of the
document with all fragments is computed without expanding them. Fields with the same response name are compared in one
pass, where graphql-core compares each pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLSchema,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    print_ast,
    specified_rules,
    validate,
)
from graphql.validation import OverlappingFieldsCanBeMergedRule

from belvedere.api.failures import LIMIT_EXCEEDED, SYNTAX, VALIDATION, InvalidDocument, RequestError
from belvedere.api.limits import NESTED_MOST, Limits

RULES = tuple(rule for rule in specified_rules if rule is not OverlappingFieldsCanBeMergedRule)

Fragments = Mapping[str, FragmentDefinitionNode]


def fragments_of(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    """Return the document's fragments by name."""
    return {d.name.value: d for d in document.definitions if isinstance(d, FragmentDefinitionNode)}


def check_document(schema: GraphQLSchema, document: DocumentNode, fragments: Fragments, limits: Limits) -> None:
    """Raise if the document is too large or not valid."""
    operations = [d for d in document.definitions if isinstance(d, OperationDefinitionNode)]
    _check_sizes(operations, fragments, limits)
    errors = validate(schema, document, RULES, max_errors=5)
    if errors:
        raise InvalidDocument(VALIDATION, errors)
    for operation in operations:
        _check_merging([operation.selection_set], fragments)


def _check_sizes(operations: Iterable[OperationDefinitionNode], fragments: Fragments, limits: Limits) -> None:
    sizes = _Sizes(fragments, limits)
    if sum(sizes.of(o.selection_set)[0] for o in operations) > limits.fields:
        raise _too_many("fields", limits.fields)
    for name in fragments:
        sizes.of_fragment(name)
    if sum(sizes.aliases(d.selection_set) for d in (*operations, *fragments.values())) > limits.aliases:
        raise _too_many("aliases", limits.aliases)


def _too_many(what: str, most: int) -> RequestError:
    return RequestError(LIMIT_EXCEEDED, f"more than {most} {what} in one request", "request less, or split the request")


class _Sizes:
    """Counts the selections of a document with all fragments expanded, and their depth; each fragment is visited
    once."""

    def __init__(self, fragments: Fragments, limits: Limits):
        self.fragments, self.limits = fragments, limits
        self.known: dict[str, tuple[int, int]] = {}

    def of(self, selections: SelectionSetNode | None, above: int = 0) -> tuple[int, int]:
        """Return the number of selections and their depth; `above` is the number of levels above them."""
        if selections is None:
            return 0, 0
        if not selections.selections:  # the parser accepts this
            raise RequestError(SYNTAX, "a selection `{ }` has no field", "name a field: `{ things { id } }`")
        if above >= NESTED_MOST:
            raise RequestError(
                LIMIT_EXCEEDED, f"selections are nested more than {NESTED_MOST} levels deep", "nest less"
            )
        found = [self.of_selection(s, above + 1) for s in selections.selections]
        number, depth = sum(n for n, _ in found), 1 + max(d for _, d in found)
        if number > self.limits.fields:
            raise _too_many("fields", self.limits.fields)
        if above + depth > NESTED_MOST:
            raise RequestError(
                LIMIT_EXCEEDED, f"selections are nested more than {NESTED_MOST} levels deep", "nest less"
            )
        return number, depth

    def of_selection(self, selection: SelectionNode, above: int) -> tuple[int, int]:
        if isinstance(selection, FragmentSpreadNode):
            number, depth = self.of_fragment(selection.name.value, above)
        else:
            number, depth = self.of(getattr(selection, "selection_set", None), above)
        return 1 + number, depth

    def of_fragment(self, name: str, above: int = 0) -> tuple[int, int]:
        """Return number and depth of a fragment's selections.

        Unknown fragments and recursive fragments count as zero: validation reports them.
        """
        if name not in self.known and name in self.fragments:
            self.known[name] = (0, 0)
            self.known[name] = self.of(self.fragments[name].selection_set, above)
        return self.known.get(name, (0, 0))

    def aliases(self, selections: SelectionSetNode | None) -> int:
        """Return the number of aliases in the text."""
        nodes = () if selections is None else selections.selections
        return sum(
            (getattr(n, "alias", None) is not None) + self.aliases(getattr(n, "selection_set", None)) for n in nodes
        )


def _check_merging(sets: Iterable[SelectionSetNode | None], fragments: Fragments) -> None:
    """Raise unless all fields with the same response name are the same field with the same arguments (GraphQL, 5.3.2).

    All types of the schema are object types. So the fields of one set have one parent type, and equal names mean equal
    types.
    """
    found: dict[str, list[FieldNode]] = {}
    seen: set[str] = set()
    for selections in sets:
        _gather(found, selections, fragments, seen)
    for key, nodes in found.items():
        if len(nodes) > 1:
            _check_same(key, nodes)
        _check_merging([n.selection_set for n in nodes], fragments)


def _gather(
    found: dict[str, list[FieldNode]], selections: SelectionSetNode | None, fragments: Fragments, seen: set[str]
) -> None:
    for node in () if selections is None else selections.selections:
        if isinstance(node, FieldNode):
            found.setdefault((node.alias or node.name).value, []).append(node)
        elif not isinstance(node, FragmentSpreadNode):
            _gather(found, getattr(node, "selection_set", None), fragments, seen)
        elif node.name.value not in seen:
            seen.add(node.name.value)
            _gather(found, fragments[node.name.value].selection_set, fragments, seen)


def _check_same(key: str, nodes: list[FieldNode]) -> None:
    first = nodes[0]
    for node in nodes[1:]:
        if node.name.value != first.name.value:
            what = f'"{first.name.value}" and "{node.name.value}" are different fields'
        elif _arguments(node) != _arguments(first):
            what = "they have differing arguments"
        else:
            continue
        hint = "give one of them an alias: `other: " + node.name.value + "`"
        raise RequestError(VALIDATION, f'Fields "{key}" conflict because {what}.', hint, node=node)


def _arguments(node: FieldNode) -> dict[str, str]:
    return {a.name.value: print_ast(a.value) for a in node.arguments or ()}
