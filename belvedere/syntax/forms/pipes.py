"""Spark's pipes: `FROM t |> WHERE a > 1 |> AGGREGATE sum(b) AS s GROUP BY c |> ORDER BY s`.

In: tokens after a query. Out: the equivalent query. Each step reads the preceding query as a subquery in FROM, or adds
a clause to it if that is equivalent. sqlglot parses steps as clauses of one SELECT regardless of their order, so this
module parses them.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from belvedere.syntax.positioned_parser import PositionedParser
from belvedere.syntax.problems import shown
from belvedere.syntax.query_tree import PLACE

STEPS = (
    "WHERE, SELECT, EXTEND, SET, DROP, AS, AGGREGATE, JOIN, UNION, INTERSECT, EXCEPT, ORDER BY, LIMIT, OFFSET, "
    "PIVOT, UNPIVOT"
)


class PipeParser(PositionedParser):
    """Parses the steps after `|>`."""

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        node: exp.Expr | None = super()._parse_select(*args, **kwargs)
        piped = self._curr and self._curr.token_type == TokenType.PIPE_GT and kwargs.get("consume_pipe", True)
        if piped and isinstance(node, (exp.Values, exp.Table)):
            return self._parse_pipe_syntax_query(exp.Select(expressions=[exp.Star()], from_=exp.From(this=node)))
        return node

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query:
        first = self._curr
        while self._match(TokenType.PIPE_GT):
            query = self._step(query)
            self._covered(query, first)
        return query

    def _step(self, query: exp.Query) -> exp.Query:
        word = self._curr.text.upper() if self._curr else ""
        if word in ("PIVOT", "UNPIVOT"):
            return _reading(_as_item(query, pivots=self._parse_pivots()), query)
        if word in ("ORDER BY", "LIMIT", "OFFSET"):
            return self._ordered(query)
        if word == "SELECT":
            return self._selected(query)
        if word == "WHERE":
            select = _open(query)
            select.set("where", self._parse_where())
            return select
        if word in _WORDS:
            self._advance()
            return _WORDS[word](self, query)
        left = query if not _is_limited(query) else _as_item(query)
        found = self.parse_set_operation(this=left)
        if found is not None:
            return found
        join = self._parse_join()
        if join is None:
            self.refuse("B1001", f"{shown(self._curr)} is not allowed after `|>`", hint=f"use one of {STEPS}")
        select = _open(query)
        select.append("joins", join)
        return select

    def _selected(self, query: exp.Query) -> exp.Query:
        first = self._curr
        found: Any = self._parse_select_query(parse_set_operation=False)
        if not isinstance(found, exp.Select) or found.args.get("from_"):
            self.refuse(
                "B1001", "a SELECT after `|>` has no FROM", first, hint="remove FROM: it reads the query before `|>`"
            )
        for name, value in _open(query).args.items():
            if name in ("from_", "joins", "laterals", "with_"):
                found.set(name, value)
        return found

    def _extended(self, query: exp.Query) -> exp.Query:
        select = _open(query)
        select.set("expressions", [exp.Star(), *self._parse_csv(self._select_item)])
        return select

    def _set(self, query: exp.Query) -> exp.Query:
        """Parse SET; each assignment sees those before it."""
        while True:
            name = self._parse_id_var(any_token=False)
            if not isinstance(name, exp.Identifier) or not self._match(TokenType.EQ):
                self.expected("`column = expression` after SET", "write |> SET a = a + 1, b = 0")
            value = self._parse_disjunction()
            if value is None:
                self.expected("an expression")
            select = _open(query)
            select.set("expressions", [exp.Star(replace=[exp.Alias(this=value, alias=name)])])
            query = select
            if not self._match(TokenType.COMMA):
                return query

    def _dropped(self, query: exp.Query) -> exp.Query:
        names = self._parse_csv(lambda: self._parse_id_var(any_token=False))
        select = _open(query)
        select.set("expressions", [exp.Star(except_=names)])
        return select

    def _named(self, query: exp.Query) -> exp.Query:
        alias = self._parse_id_var(any_token=False)
        if alias is None:
            self.expected("a name after AS")
        return _reading(_as_item(query, alias=exp.TableAlias(this=alias)), query)

    def _aggregated(self, query: exp.Query) -> exp.Query:
        group = self._curr and self._curr.token_type == TokenType.GROUP_BY
        aggregates = [] if group else self._parse_csv(self._select_item)
        select = _open(query)
        keys = []
        if self._match(TokenType.GROUP_BY):
            keys = self._parse_csv(self._key)
            select.set("group", exp.Group(expressions=[_grouped(key, place) for place, key in enumerate(keys, 1)]))
        elif not aggregates:
            self.expected("an aggregate, or GROUP BY", "write |> AGGREGATE count(*) AS n GROUP BY k")
        select.set("expressions", [*keys, *aggregates])
        return select

    def _select_item(self) -> exp.Expr:
        item = self._parse_expression()
        if item is None:
            self.refuse("B1001", f"expected a select item, found {shown(self._curr)}")
        return item

    def _key(self) -> exp.Expr:
        first = self._curr
        key: exp.Expr = self._select_item()
        number = key.this if isinstance(key, exp.Neg) else key
        if isinstance(number, exp.Literal) and number.is_int:
            star = exp.Star()
            star.meta.update(number.meta, **{PLACE: int(number.this) if number is key else -1})
            return star
        if isinstance(key, (exp.Literal, exp.GroupingSets, exp.Rollup, exp.Cube)):
            self.refuse(
                "B3040", f"{shown(first)} after AGGREGATE ... GROUP BY is not supported", first, hint="name the column"
            )
        return key

    def _ordered(self, query: exp.Query) -> exp.Query:
        order = self._parse_order()
        limit, offset = self._parse_limit(), None
        if self._curr and self._curr.token_type == TokenType.OFFSET:
            offset = self._parse_offset()
        if order is not None or not isinstance(query, exp.Select):
            query = _open(query)
        if order is not None:
            query.set("order", order)
        return _limited(query, limit, offset)


def _grouped(key: exp.Expr, place: int) -> exp.Expr:
    """Return the GROUP BY expression for a key that is the item at a position: the position itself if the key's text
    would be read as one.
    """
    value = key.unalias()
    if not isinstance(value, (exp.Star, exp.Literal)):
        return value.copy()
    number = exp.Literal.number(place)
    number.meta.update(key.meta)
    return number


_WORDS = {
    "EXTEND": PipeParser._extended,
    "SET": PipeParser._set,
    "DROP": PipeParser._dropped,
    "AS": PipeParser._named,
    "AGGREGATE": PipeParser._aggregated,
}


def _open(query: exp.Query) -> exp.Select:
    """Return a SELECT of all columns of the query, to which any clause may be added."""
    said = {name for name, value in query.args.items() if value}
    if (
        isinstance(query, exp.Select)
        and said <= {"expressions", "from_", "joins", "laterals", "with_"}
        and _is_all(query)
    ):
        return query
    return _reading(_as_item(query, alias=_alias(query)), query)


def _is_all(query: exp.Select) -> bool:
    items = query.expressions
    return len(items) == 1 and isinstance(items[0], exp.Star) and not any(items[0].args.values())


def _alias(query: exp.Query) -> exp.TableAlias | None:
    """Return the alias of the query's table; it remains valid until the next SELECT."""
    item: Any = query.args["from_"].this if isinstance(query, exp.Select) and query.args.get("from_") else None
    if item is None or query.args.get("joins") or query.args.get("laterals") or not query.expressions:
        return None
    if not isinstance(query.expressions[0], exp.Star) or query.args.get("group") or not item.alias_or_name:
        return None
    return exp.TableAlias(this=exp.to_identifier(item.alias_or_name, quoted=True))


def _as_item(query: exp.Query, alias: exp.Expr | None = None, pivots: Any = None) -> exp.Subquery:
    inner = query.this if isinstance(query, exp.Subquery) and not query.args.get("alias") else query
    with_ = inner.args.get("with_")
    item = exp.Subquery(this=inner, alias=alias, pivots=pivots)
    if with_ is not None:
        item.meta["with"] = with_.pop()
    return item


def _reading(item: exp.Subquery, query: exp.Query) -> exp.Select:
    """Return `SELECT * FROM item`; later steps also see the names of WITH."""
    with_ = item.meta.pop("with", None)
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=item), with_=with_)
    for node in (select, item):
        node.meta.update(query.meta)
    return select


def _is_limited(query: exp.Query) -> bool:
    return any(query.args.get(name) for name in ("order", "limit", "offset"))


def _limited(query: exp.Query, limit: Any, offset: Any) -> exp.Query:
    """Return the rows of the query in its order, with LIMIT and OFFSET."""
    before, skipped_before = _count(query.args.get("limit")), _count(query.args.get("offset")) or 0
    most, skipped = _count(limit), _count(offset) or 0
    if limit is None and offset is None:
        return query
    if (limit is not None and most is None) or (query.args.get("limit") and before is None):
        query = _open(query)
        query.set("limit", limit)
        query.set("offset", offset)
        return query
    kept = None if before is None else max(before - skipped, 0)
    found = most if kept is None else kept if most is None else min(kept, most)
    for name, node, value in (("limit", exp.Limit, found), ("offset", exp.Offset, skipped_before + skipped)):
        if value is not None:
            made = node(expression=exp.Literal.number(value))
            made.meta.update((limit or offset).meta)
            query.set(name, made)
    return query


def _count(clause: Any) -> int | None:
    value = clause.expression if clause is not None else None
    return int(value.this) if isinstance(value, exp.Literal) and str(value.this).isdigit() else None
