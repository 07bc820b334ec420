"""REST requests: what the path and the query string select from the model.

In: a path below `/rest`, the parameters of a query string, a `Model`. Out: a `RestRequest`: the selection for the
planner, its values, and how the answer is paged. This module looks up all names in the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, NOT_FOUND, RequestError
from belvedere.api.graphql.operations import remember
from belvedere.api.graphql.selections import Selection
from belvedere.api.limits import Limits
from belvedere.api.reads.argument_values import Fixed, Given, Scalar
from belvedere.api.reads.entities import Entity, Model, RelationshipField, Template
from belvedere.api.reads.provenance import WhyNotRequest, WhyRequest, asked_of, why_not_of
from belvedere.api.rest.filters import FilterValues, filter_of, find_column
from belvedere.api.rest.grammar import (
    Chosen,
    ConditionGroup,
    Test,
    read_group,
    read_key,
    read_order,
    read_select,
    read_test,
    unreadable,
)
from belvedere.api.rest.parameters import Pairs, Said, pairs_of, sorted_parameters, words_of
from belvedere.catalog.templates import Parameter
from belvedere.plan.operators.nodes import Scan
from belvedere.store.read.query import is_ordered
from belvedere.syntax.wording import did_you_mean

ROWS = "rows"
"""Name of a request's rows in the store's answer."""
SHORT = 2_000
"""Maximum characters of a URL that is cached and read on the event loop."""
OF_LISTS = ("order", "limit", "offset")
OF_ROWS = ("select", "as_of")
OF_ROOTS = (*OF_ROWS, *OF_LISTS, "after")
Source = Entity | Template


@dataclass(frozen=True)
class RestRequest:
    """A request for the rows of `source`.

    `selection` selects them, `literals` are the values by number, `pairs` the query string, for the URL of the next
    page.
    """

    source: Source
    selection: Selection
    literals: list[Any]
    one: bool = False
    """Whether it requests one row by its key."""
    limit: int = 0
    offset: int | None = None
    """Number of rows before the page; None if pages continue by cursor."""
    after: Scalar | None = None
    pairs: Pairs = ()
    counted: bool = False
    """Whether the answer has the total number of rows."""
    ranged: bool = False
    """Whether the answer has the range of its rows, because the client sent `Range`."""

    @cached_property
    def shape(self) -> Any:
        """Return the part of the request that decides its plan: everything except its values."""
        how = (self.one, self.offset is None, self.after is None, self.counted)
        return (type(self.source), *how, _shape(self.selection))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of a row's fields."""
        return tuple(f.alias for f in self.selection.fields)


class Requests:
    """Converts the paths and query strings of one model's requests to `RestRequest`s."""

    def __init__(self, model: Model, limits: Limits):
        self._model, self._limits = model, limits
        self._seen: dict[tuple[str, str | None, bytes], RestRequest] = {}
        entities: dict[str, Source] = {e.field: e for e in model.entities.values() if e.field}
        self.sources: Mapping[str, Source] = entities | dict(model.templates)
        self._others = {name_of(s).casefold(): s for s in self.sources.values()}
        self._others |= {field.casefold(): s for field, s in self.sources.items()}

    def has(self, name: str) -> bool:
        """Return whether an endpoint has exactly that name."""
        return name in self.sources or name.casefold() in self._others

    def source(self, name: str) -> Source:
        """Return the relation that `/rest/<name>` serves: by the name of its endpoint, or of its view in any case."""
        found = self.sources.get(name) or self._others.get(name.casefold())
        if found is None:
            hint = did_you_mean(name, sorted(self.sources)) or "`/openapi.json` lists all paths"
            raise RequestError(NOT_FOUND, f'there is no view, table or query template "{name}"', hint, status=404)
        return found

    def asked(self, name: str, key: str | None, query: bytes) -> RestRequest:
        """Return the request like `read`, from a query string. Requests with short URLs are cached."""
        address = (name, key, query)
        found = self._seen.get(address)
        if found is None:
            found = self.read(name, key, pairs_of(query, self._limits))
            if len(query) + len(key or "") <= SHORT:
                remember(self._seen, address, found)
        return found

    def why(self, name: str, key: str, query: bytes) -> WhyRequest:
        """Return the question of `/rest/<name>/<key>/why`, which has the parameters `depth` and `rows`."""
        source = self.source(name)
        if isinstance(source, Template):
            raise self._of_template(source)
        if source.by_key is None:
            raise RequestError(NOT_FOUND, f"rows of {name_of(source)} have no key that fits into a path", status=404)
        given = _given(f"{name_of(source)}/KEY/why", pairs_of(query, self._limits), ("depth", "rows"))
        values = dict(zip(source.key, read_key("key", key, len(source.key)), strict=True))
        return asked_of(source, values, given.get("depth"), given.get("rows"))

    def why_not(self, name: str, query: bytes) -> WhyNotRequest:
        """Return the question of `/rest/<name>/why-not`: the filters of the list, and `limit` for the number of shown
        rows."""
        source = self.source(name)
        if isinstance(source, Template):
            raise self._of_template(source)
        reading = _RequestReader(self._model, self._limits, FilterValues(self._limits), pairs_of(query, self._limits))
        return reading.missing(source)

    def why_not_of_row(self, name: str, key: str) -> RequestError:
        """Return the error of `/rest/<name>/<key>/why-not`: a missing row has no URL; the hint shows the correct
        URL."""
        source = self.source(name)
        if isinstance(source, Template):
            return self._of_template(source)
        tests = "COLUMN=eq.VALUE"
        if source.by_key is not None:
            values = zip(source.key, read_key("key", key, len(source.key)), strict=True)
            tests = "&".join(f"{quote(n)}=eq.{quote(v)}" for n, v in values)
        hint = f"ask `/rest/{source.field}/why-not?{tests}`; write a `/` within a key as `%2F`"
        return RequestError(NOT_FOUND, "`why-not` needs a view, not a row", hint, status=404)

    def _of_template(self, source: Template) -> RequestError:
        """Return the error that a query template has no rows to trace."""
        read = {n.relation for n in source.template.plan.walk() if isinstance(n, Scan)}
        fields = [f"`/rest/{e.field}`" for e in self._model.entities.values() if e.id in read and e.field]
        message = f"{name_of(source)} is a query template, which stores no rows"
        hint = f"ask for rows of the relations that it reads: {', '.join(fields)}" if fields else None
        return RequestError(NOT_FOUND, message, hint, status=404)

    def read(self, name: str, key: str | None, pairs: Pairs) -> RestRequest:
        """Return the request for `/rest/<name>`, or `/rest/<name>/<key>`."""
        source = self.source(name)
        reading = _RequestReader(self._model, self._limits, FilterValues(self._limits), pairs)
        if isinstance(source, Entity):
            return reading.entity(source) if key is None else reading.row(source, key)
        if key is not None:
            raise RequestError(NOT_FOUND, f"{name_of(source)} is a query template: its rows have no URLs", status=404)
        return reading.template(source)


def name_of(source: Source) -> str:
    """Return the name in the script."""
    return source.name if isinstance(source, Entity) else source.template.name


@dataclass
class _RequestReader:
    model: Model
    limits: Limits
    literals: FilterValues
    pairs: Pairs
    fields: int = 0
    aliases: int = 0

    # roots

    def entity(self, entity: Entity) -> RestRequest:
        """Return the request for rows of an entity."""
        said = sorted_parameters(self.pairs)
        words = words_of([p for p in said.own if p.is_word(OF_ROOTS)])
        said.own = [p for p in said.own if not p.is_word((*OF_ROWS, "after"))]
        if "after" in words and "offset" in words:
            raise unreadable("after", "a cursor and an offset cannot be used together", "remove one of them")
        arguments = self._list_arguments(entity, said, "", required=True) | self._as_of(words)
        fields = self._fields(entity, read_select("select", words.get("select", "")), said)
        after = self.literals.text(words["after"]) if "after" in words else None
        return self._listed(entity, Selection(ROWS, entity.field, arguments, fields), after)

    def row(self, entity: Entity, key: str) -> RestRequest:
        """Return the request for the row with a key."""
        if entity.by_key is None:
            hint = f"filter instead: /rest/{entity.field}?column=eq.value"
            raise RequestError(NOT_FOUND, f"rows of {entity.name} have no key that fits into a path", hint, status=404)
        said = sorted_parameters(self.pairs)
        for each in said.own:
            if not each.is_word(OF_ROWS):
                raise unreadable(each.key, "a single row takes only `select` and `as_of`", "filter the list instead")
        words = words_of(said.own)
        values = read_key("key", key, len(entity.key))
        keys = zip(entity.key.items(), values, strict=True)
        arguments: dict[str, Given] = {name: self.literals.add(value, c.type, name) for (name, c), value in keys}
        fields = self._fields(entity, read_select("select", words.get("select", "")), said)
        selection = Selection(ROWS, entity.by_key, arguments | self._as_of(words), fields)
        return RestRequest(entity, selection, self.literals.values, one=True)

    def missing(self, entity: Entity) -> WhyNotRequest:
        """Return the question for missing rows of an entity."""
        from belvedere.api.reads.why_not_filters import with_values  # imports provenance, which few requests need

        said = sorted_parameters(self.pairs)
        words = words_of([p for p in said.own if p.is_word(("limit",))])
        said.own = [p for p in said.own if not p.is_word(("limit",))]
        for name in [p.key for p in said.own if p.is_word(OF_ROOTS)] + list(said.inner):
            raise unreadable(name, "`why-not` takes only filters of columns and `limit`", "remove it")
        asked = self._list_arguments(entity, said, "", required=True).get("filter")
        return why_not_of(entity, with_values(asked or {}, self.literals.values), "limit", words.get("limit"))

    def template(self, template: Template) -> RestRequest:
        """Return the request for a query template's rows; its arguments are parameters without operators."""
        if template.rows is not None:
            return self._chosen_rows(template, template.rows)
        given = _given(name_of(template), self.pairs, (*template.parameters, "select", "limit", "offset"))
        arguments = self._arguments(name_of(template), template.parameters, given, "")
        arguments |= {
            n: self.literals.rows(given[n], n) for n in ("limit", "offset") if n in given and n not in arguments
        }
        select = "" if "select" in template.parameters else given.get("select", "")
        fields: dict[str, Selection] = {}
        for chosen in read_select("select", select):
            names = template.columns if chosen.name == "*" else (chosen.name,)
            for name in names:
                if name not in template.columns or chosen.parts is not None:
                    hint = did_you_mean(name, sorted(template.columns)) or f"its columns: {', '.join(template.columns)}"
                    raise unreadable("select", f'{name_of(template)} has no column "{name}"', hint)
                self._add(fields, Selection(chosen.alias or name, name))
        return self._listed(template, Selection(ROWS, template.field, arguments, tuple(fields.values())), None)

    def _chosen_rows(self, template: Template, rows: RelationshipField) -> RestRequest:
        """Return the request for the rows of an entity that a query template selects, in the form of related rows."""
        target, said = self.model.entities[rows.target], sorted_parameters(self.pairs)
        select = [p for p in said.own if p.is_word(("select",)) and "select" not in rows.parameters]
        said.own = [p for p in said.own if p not in select]
        arguments = self._relation_arguments(rows, target, said, "")
        fields = self._fields(target, read_select("select", words_of(select).get("select", "")), said)
        return self._listed(template, Selection(ROWS, template.field, arguments, fields), None)

    def _listed(self, source: Source, selection: Selection, after: Scalar | None) -> RestRequest:
        limit, offset = selection.arguments.get("limit"), selection.arguments.get("offset")
        rows = self.literals.values[limit.source[1]] if isinstance(limit, Scalar) else self.limits.rows
        start = self.literals.values[offset.source[1]] if isinstance(offset, Scalar) else None
        if start is None and isinstance(source, Template):
            start = 0  # its rows may be equal in all columns, so a cursor could not distinguish them
        return RestRequest(source, selection, self.literals.values, False, rows, start, after, self.pairs)

    # selections

    def _fields(self, entity: Entity, chosen: tuple[Chosen, ...], said: Said) -> tuple[Selection, ...]:
        """Return the selected columns and relationships."""
        fields: dict[str, Selection] = {}
        for each in chosen:
            if each.parts is not None:
                self._add(fields, self._embedded(entity, each, said.inner.pop(each.alias or each.name, Said())))
                continue
            if each.name in entity.relations:
                raise unreadable("select", f"`{each.name}` is a relationship", f"write `{each.name}(*)`")
            for name in entity.columns if each.name == "*" else (each.name,):
                find_column(entity, name, "select")
                self._add(fields, Selection(each.alias or name, name))
        for name in said.inner:
            raise unreadable(name, f"`{name}` is not a selected relationship", f"select it: `select=*,{name}(*)`")
        return tuple(fields.values())

    def _add(self, fields: dict[str, Selection], selection: Selection) -> None:
        known = fields.setdefault(selection.alias, selection)
        if known != selection:
            raise unreadable(
                "select", f"`{selection.alias}` is selected twice", "give one of them an alias: `other:column`"
            )
        self.fields += 1
        self.aliases += selection.alias != selection.name
        for number, most, what in (
            (self.fields, self.limits.fields, "fields"),
            (self.aliases, self.limits.aliases, "aliases"),
        ):
            if number > most:
                raise RequestError(LIMIT_EXCEEDED, f"more than {most} {what} in one request", "request less")

    def _embedded(self, entity: Entity, chosen: Chosen, said: Said) -> Selection:
        relation, alias = entity.relations.get(chosen.name), chosen.alias or chosen.name
        if relation is None:
            hint = (
                did_you_mean(chosen.name, sorted(entity.relations))
                or f"its relationships: {', '.join(entity.relations)}"
            )
            raise unreadable(
                "select", f'{entity.name} has no relationship "{chosen.name}"', hint if entity.relations else None
            )
        target = self.model.entities[relation.target]
        assert chosen.parts is not None
        arguments = self._relation_arguments(relation, target, said, f"{alias}.")
        return Selection(alias, chosen.name, arguments, self._fields(target, chosen.parts, said))

    # arguments

    def _relation_arguments(
        self, relation: RelationshipField, target: Entity, said: Said, path: str
    ) -> dict[str, Given]:
        own = [p for p in said.own if p.is_word(tuple(relation.parameters))]
        said.own = [p for p in said.own if p not in own]
        arguments = self._arguments(relation.name, relation.parameters, words_of(own), path)
        if relation.to_one and said.own:
            raise unreadable(said.own[0].key, f"{relation.name} is a single row, which takes no filter and no order")
        return arguments | self._list_arguments(target, said, path)

    def _arguments(
        self, of: str, parameters: Mapping[str, Parameter], given: Mapping[str, str], path: str
    ) -> dict[str, Given]:
        """Return the arguments of a query template or a relationship with parameters."""
        found: dict[str, Given] = {}
        for name, parameter in parameters.items():
            if parameter.metadata is not None:
                if name in given:
                    raise unreadable(path + name, "the caller's token sets this parameter", "remove it")
            elif name in given:
                found[name] = self.literals.add(given[name], parameter.type, path + name)
            elif parameter.default is None and not parameter.nullable:
                raise RequestError(BAD_VALUE, f"{of} needs `{path}{name}`", f"add `{path}{name}=...` to the URL")
        return found

    def _list_arguments(self, entity: Entity, said: Said, path: str, required: bool = False) -> dict[str, Given]:
        """Return filter, order and limits of a list."""
        words = words_of([p for p in said.own if p.is_word(OF_LISTS)])
        terms: list[Test | ConditionGroup] = []
        for each in said.own:
            if each.is_word(OF_LISTS):
                continue
            if each.is_group:
                terms.append(read_group(each.key, each.name, each.value, each.negated))
            else:
                find_column(entity, each.name, each.key)
                terms.append(read_test(each.key, each.name, each.value))
        if required:
            _check_required(entity, terms)
        arguments: dict[str, Given] = {}
        asked = filter_of(entity, terms, self.literals)
        if asked is not None:
            arguments["filter"] = asked
        if "order" in words:
            arguments["order"] = self._order(entity, words["order"], f"{path}order")
        return arguments | {n: self.literals.rows(words[n], path + n) for n in ("limit", "offset") if n in words}

    def _order(self, entity: Entity, said: str, what: str) -> list[Given]:
        found: list[Given] = []
        for each in read_order(what, said):
            column = find_column(entity, each.column, what)
            if not is_ordered(column.type):
                raise unreadable(what, f"values of `{each.column}` have no order")
            nulls = "" if each.nulls_first is None else "_NULLS_FIRST" if each.nulls_first else "_NULLS_LAST"
            found.append({each.column: Fixed(("DESC" if each.descending else "ASC") + nulls)})
        return found

    def _as_of(self, words: Mapping[str, str]) -> dict[str, Given]:
        """Return the state of `as_of=5`, an epoch, or of `as_of=2024-03-01T09:00:00Z`, a time."""
        text = words.get("as_of")
        if text is None:
            return {}
        if text.isascii() and text.isdigit():
            return {"asOf": {"epoch": self.literals.rows(text, "as_of")}}
        return {"asOf": {"time": self.literals.text(text)}}


def _given(of: str, pairs: Pairs, known: tuple[str, ...]) -> dict[str, str]:
    """Return the parameters of a query template. Raises for unknown ones."""
    given: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            hint = did_you_mean(name, sorted(known)) or f"its parameters: {', '.join(known)}"
            raise unreadable(name, f"{of} has no such parameter", hint)
        if name in given:
            raise unreadable(name, "it is given twice", "give it once")
        given[name] = value
    return given


def _check_required(entity: Entity, terms: list[Test | ConditionGroup]) -> None:
    """Raise if a column that a hint of the script requires has no value."""
    equal = {t.column for t in terms if isinstance(t, Test) and t.operator == "eq" and not t.negated}
    shown = {column.name: name for name, column in entity.columns.items()}
    for column, needed in entity.arguments.values():
        name = shown[column.name]
        if needed and name not in equal:
            raise RequestError(
                BAD_VALUE, f"{entity.name} needs a value of `{name}`", f"add `{name}=eq.VALUE` to the URL"
            )


def _shape(selection: Selection) -> Any:
    arguments = tuple((name, _shape_of(given)) for name, given in selection.arguments.items())
    return (selection.alias, selection.name, arguments, tuple(map(_shape, selection.fields)))


def _shape_of(given: Given) -> Any:
    """Return a value's structure, with numbers in place of its scalars."""
    match given:
        case Scalar():
            return given.source
        case Fixed():
            return (type(given.value), given.value)
        case dict():
            return ("object", *((name, _shape_of(value)) for name, value in given.items()))
    return ("list", *map(_shape_of, given))
