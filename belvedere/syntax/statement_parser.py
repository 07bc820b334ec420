"""One statement's tokens -> the statement.

In: a `RawStatement`. Out: one of the dataclasses of `belvedere.syntax.statement_tree`, or a `Problem` raised at the
unexpected token. `findings` has the recoverable errors.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.catalog.inputs import InputKind
from belvedere.catalog.subscriptions import ChangeKind
from belvedere.errors import Span
from belvedere.syntax.clauses import ClauseParser, cut_history
from belvedere.syntax.dialect import Sqrl
from belvedere.syntax.forms.rewriting import named_columns
from belvedere.syntax.positions import map_tokens
from belvedere.syntax.problems import Problem, shown, statement_meant
from belvedere.syntax.query_checks import check_query
from belvedere.syntax.query_tree import QueryTree, WindowByBlock
from belvedere.syntax.splitting import RawStatement, Tokens
from belvedere.syntax.statement_tree import (
    CheckClause,
    ColumnDefinition,
    ComputedColumn,
    CreateInput,
    CreateSubscription,
    DefineColumn,
    DefineLocalQuery,
    DefineRelationship,
    DefineTemplate,
    DefineView,
    DistinctOn,
    DottedName,
    ExportStatement,
    ImportAll,
    ImportTable,
    Part,
    Statement,
    TemplateParameter,
)
from belvedere.syntax.wording import nearest_name

CHANGES = {
    "ADD": ChangeKind.ADD,
    "CHANGE": ChangeKind.CHANGE,
    "UPDATE": ChangeKind.CHANGE,
    "DELETE": ChangeKind.DELETE,
}
QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES)
JOIN_WORDS = frozenset(("NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER", "SEMI", "ANTI", "ASOF"))
SQRL = Sqrl()


class StatementParser(ClauseParser):
    """Parser of a single statement."""

    def __init__(self, raw: RawStatement, text: str, file: str, read: Tokens):
        super().__init__(dialect=SQRL)
        self.raw, self.text, self.file, self.read = raw, text, file, read
        definition, self._tail = cut_history(raw.tokens)
        self.begin(definition, text, raw.streams)
        self._map = map_tokens(raw.tokens)

    def here(self) -> Token:
        """Return the next token, or the last one at the end."""
        return self._curr or self._prev or self.raw.tokens[-1]

    def statement(self) -> Statement:
        """Parse the statement; every token must belong to it."""
        statement = self._statement()
        if self._curr:
            self._leftover(statement)
        return self._with_history(statement) if self._tail else statement

    def _with_history(self, statement: Statement) -> Statement:
        found = self.findings
        self.begin(self._tail, self.text, self.raw.streams)
        clause = self._history_clause()
        self.findings = [*found, *self.findings]
        if isinstance(statement, DefineView | DistinctOn):
            return replace(statement, history=clause)
        hint = "write it after the query of a view, or after the columns of an input"
        raise Problem("B4031", "WITH HISTORY is not allowed here", clause.span.start, clause.span.end, hint)

    def _leftover(self, statement: Statement) -> None:
        hint = None
        if isinstance(statement, ImportTable | ImportAll | ExportStatement):
            hint = "write `;` or begin a new line before the next statement"
        elif isinstance(statement, CreateInput):
            hint = (
                "only WATERMARK, LATE, KEEP, IDLE AFTER and WITH HISTORY follow the columns; configure sources in "
                "belvedere.toml"
            )
            if self._curr.text.upper().startswith("PARTITIONED"):
                hint = "remove it: indexes follow from views, relationships and query templates"
            elif self._curr.text.upper() == "COMMENT":
                hint = "write the description before the statement or column: /** ... */"
        self.refuse("B1001", f"unexpected {shown(self._curr)}", hint=hint)

    def _span(self) -> Span:
        return Span(self.file, self.raw.start, self.raw.end)

    def _statement(self) -> Statement:
        defined = self._defined_path()
        if defined is not None:
            return self._definition(*defined)
        if self._curr.token_type in QUERY_STARTS or self._curr.token_type == TokenType.L_PAREN or self._is_table():
            return DefineTemplate(span=self._span(), doc=self.raw.doc, path=None, parameters=(), query=self._query())
        reader = {"IMPORT": self._import, "EXPORT": self._export, "CREATE": self._create}.get(self._curr.text.upper())
        if reader is None:
            self._unknown_statement()
        self._advance()
        return reader()

    def _unknown_statement(self) -> NoReturn:
        self.refuse("B1008", f"no statement begins with {shown(self._curr)}", hint=statement_meant(self._curr.text))

    # -- definitions --------------------------------------------------------------------------------------------------

    def _defined_path(self) -> tuple[DottedName, tuple[TemplateParameter, ...] | None] | None:
        """Parse `a.b :=` or `q(name TYPE) :=`. Return None and read nothing if this is not a definition."""
        if not any(t.token_type == TokenType.COLON_EQ for t in self._tokens):
            return None
        index = self._index
        path = self._path_or_none()
        if path is None:
            return None
        parameters = self._parameters() if self._curr.token_type == TokenType.L_PAREN else None
        if not self._match(TokenType.COLON_EQ):
            if parameters is None and self._curr:
                self._retreat(index)
                return None
            self.expected("`:=`")
        return path, parameters

    def _definition(self, path: DottedName, parameters: tuple[TemplateParameter, ...] | None) -> Statement:
        if not self._curr:
            end = path.span.end
            raise Problem(
                "B1009", f"`{path.text} :=` defines nothing: an expression is missing", path.span.start, end,
                "write a query or an expression after `:=`, or remove the line",
            )  # fmt: skip
        if parameters is not None and path.owner:
            return self._with_parameters(path, parameters)
        if parameters is not None and not self._subscribes():
            return DefineTemplate(
                span=self._span(), doc=self.raw.doc, path=path, parameters=parameters, query=self._query()
            )
        if self._at_distinct_on():
            return self._distinct_on(path)
        if self._at_join():
            return self._relationship(path)
        if self._subscribes():
            self._advance()
            return self._subscription(path, parameters or (), required=False)
        return self._query_or_column(path)

    def _with_parameters(self, path: DottedName, parameters: tuple[TemplateParameter, ...]) -> Statement:
        """Parse `T.r(a INT) := JOIN ...` or `:= SELECT ...`."""
        if self._at_join():
            return replace(self._relationship(path), parameters=parameters)
        if self._starts_query() and not self._is_window_by():
            query = self._query()
            return DefineLocalQuery(span=self._span(), doc=self.raw.doc, path=path, query=query, parameters=parameters)
        raise Problem(
            "B1010", f"`{path.text}` has parameters, so it must be a relationship", path.span.start, path.span.end,
            f"write `{path.text}(...) := SELECT * FROM X x WHERE x.key = this.key AND x.column > :parameter`",
        )  # fmt: skip

    def _at_join(self) -> bool:
        """Return whether words of a join, up to JOIN, are next."""
        ahead = 0
        while (token := self._token(ahead)) is not None and token.text.upper() in JOIN_WORDS:
            ahead += 1
        return token is not None and token.token_type == TokenType.JOIN

    def _subscribes(self) -> bool:
        """Return whether SUBSCRIBE, or STREAM ON, is next."""
        return self._curr.text.upper() == "SUBSCRIBE" or self._at_words("STREAM", "ON")

    def _query_or_column(self, path: DottedName) -> Statement:
        if self._is_window_by() or self._starts_query():
            value: exp.Expr = self._query_or_expression()
        else:
            value = self._expression()
        if isinstance(value, exp.Query) and not (isinstance(value, exp.Subquery) and value.args.get("alias")):
            if not path.owner:
                return DefineView(span=self._span(), doc=self.raw.doc, path=path, query=value)
            return DefineLocalQuery(span=self._span(), doc=self.raw.doc, path=path, query=value)
        if not path.owner:
            name = path.text
            raise Problem(
                "B1010", f"`{name}` is defined by an expression, but a view needs a query", value.meta["start"],
                value.meta["end"], f"write `{name} := SELECT ...`, or name the table: `Table.{name} := ...`",
            )  # fmt: skip
        return DefineColumn(span=self._span(), doc=self.raw.doc, path=path, expression=value)

    def _at_distinct_on(self) -> bool:
        return self._curr.token_type == TokenType.DISTINCT

    def _distinct_on(self, path: DottedName) -> DistinctOn:
        self._advance()
        table = self._path("the name of a table")
        named = self._match(TokenType.ALIAS) or (self._curr.token_type != TokenType.ON and self._is_name(self._curr))
        alias = self._name("an alias") if named else None
        if not self._match(TokenType.ON):
            hint = f"write `DISTINCT {table.text} ON key ORDER BY column DESC`"
            self.refuse("B1011", "DISTINCT needs ON and the columns that identify a row", hint=hint)
        keys = tuple(self._parse_csv(self._expression))
        return DistinctOn(
            span=self._span(), doc=self.raw.doc, path=path, table=table, alias=alias, keys=keys, order=self._order()
        )

    def _relationship(self, path: DottedName) -> DefineRelationship:
        if not path.owner:
            hint = f"write `Table.{path.text} := JOIN ...`"
            raise Problem("B1010", "a relationship belongs to a table", path.span.start, path.span.end, hint)
        joins = tuple(self._parse_joins())
        for join in joins:
            self._place(join)
        where = self._parse_where()
        order = self._order()
        limit, most = self._limit()
        return DefineRelationship(
            span=self._span(), doc=self.raw.doc, path=path, joins=joins,
            where=self._place(where).this if where is not None else None, order=order, limit=limit, most=most,
        )  # fmt: skip

    # -- queries ------------------------------------------------------------------------------------------------------

    def _starts_query(self) -> bool:
        ahead = 0
        while (token := self._token(ahead)) is not None and token.token_type == TokenType.L_PAREN:
            ahead += 1
        return token is not None and (token.token_type in QUERY_STARTS or self._is_table(ahead))

    def _is_table(self, ahead: int = 0) -> bool:
        """Return whether `TABLE t` is at that position, which means all of t."""
        token, name = self._token(ahead), self._token(ahead + 1)
        return token is not None and token.token_type == TokenType.TABLE and self._is_name(name)

    def _is_window_by(self) -> bool:
        rest = self._tokens[self._index :]
        return any(
            a.text.upper() == "WINDOW" and b.text.upper() == "BY" and a.token_type != TokenType.STRING
            for a, b in pairwise(rest)
        )

    def _window_by(self) -> WindowByBlock:
        last = self._emit_index()
        start, end = self._curr.start, self._tokens[last - 1].end + 1
        put_in = next((p for p in self.read.expanded.put_in if start <= p[0] < end), None)
        if put_in is not None:
            hint = "write the value, or filter by it in a view that WINDOW BY reads"
            raise Problem("B1025", "a query with WINDOW BY takes no variables", *put_in, hint)
        block = WindowByBlock(text=self.text[start:end], start=start, end=end)
        block.meta["start"], block.meta["end"] = start, end
        self._advance(last - self._index)
        if self._at_emit():
            block.set("emit", self._place(self._parse_emit()))
        return block

    def _emit_index(self) -> int:
        """Return the index of the EMIT clause of a query with WINDOW BY, or of the statement's end."""
        words = [t.text.upper() for t in self._tokens] + [""] * 3

        def begins(place: int) -> bool:
            return words[place] == "EMIT" and (
                words[place + 1] in ("STREAM", "AFTER") or words[place + 1 : place + 4] == ["ON", "WINDOW", "CLOSE"]
            )

        return next((i for i in range(self._index + 1, self._tokens_size) if begins(i)), self._tokens_size)

    def _query_or_expression(self) -> exp.Expr:
        if self._is_window_by():
            return self._window_by()
        node: Any = None if self._is_table() else self._parse_expression()
        node = self._parse_set_operations(node) if node else self._parse_select()
        if isinstance(node, exp.Query) and self._curr and self._curr.token_type == TokenType.PIPE_GT:
            node = self._parse_pipe_syntax_query(node)
        node = self._parse_query_modifiers(node)
        if node is None:
            self.refuse("B1002", f"expected a query, found {shown(self._curr)}")
        if isinstance(node, exp.Values):
            node = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))
        placed: exp.Expr = self._place(node)
        self.findings += check_query(placed)
        return placed

    def _query(self) -> QueryTree:
        if not self._curr:
            self.refuse("B1002", "a query is missing", hint="write `SELECT ...`")
        if not self._is_window_by() and not self._starts_query():
            self.refuse("B1002", f"expected a query, found {shown(self._curr)}", hint="write `SELECT ...`")
        query = self._query_or_expression()
        if not isinstance(query, exp.Query):
            raise Problem("B1002", "expected a query, found an expression", query.meta["start"], query.meta["end"])
        return query

    # -- IMPORT, EXPORT -----------------------------------------------------------------------------------------------

    def _import(self) -> Statement:
        path = self._path("the name of a source", star=True, variables=True)
        every = self._match(TokenType.STAR)
        alias = self._name("a name") if self._match(TokenType.ALIAS) else None
        if every:
            return ImportAll(
                span=self._span(), doc=self.raw.doc, origin=path, alias=alias, clauses=self._input_clauses()
            )
        if len(path.parts) < 2 and alias is None:
            hint = f"write `IMPORT {path.text}.Table`, or `IMPORT {path.text}.*` for all its tables"
            raise Problem("B1016", f"IMPORT `{path.text}` names no table", path.span.start, path.span.end, hint)
        return ImportTable(
            span=self._span(), doc=self.raw.doc, origin=DottedName(path.owner), table=path.last, alias=alias,
            clauses=self._input_clauses(),
        )  # fmt: skip

    def _export(self) -> ExportStatement:
        relation = self._path("the name of a view or subscription")
        if not self._match_text_seq("TO"):
            self.expected("`TO`", f"write `EXPORT {relation.text} TO sink.Name`")
        sink = self._path("a sink")
        if len(sink.parts) != 2:
            hint = f"write `EXPORT {relation.text} TO {sink.parts[0].text}.Name`"
            raise Problem("B1017", "EXPORT needs a sink and a name in it", sink.span.start, sink.span.end, hint)
        return ExportStatement(
            span=self._span(), doc=self.raw.doc, relation=relation, sink=sink.parts[0], target=sink.parts[1]
        )

    # -- CREATE -------------------------------------------------------------------------------------------------------

    def _create(self) -> Statement:
        self._match_text_seq("OR", "REPLACE")
        self._match_texts(("TEMPORARY", "TEMP", "MATERIALIZED"))
        if self._match_texts(("STREAM", "TABLE")):
            return self._create_input(InputKind(self._prev.text.lower()))
        if self._match_text_seq("SUBSCRIPTION"):
            name = DottedName((self._name("the name of the subscription"),))
            parameters = self._parameters() if self._curr and self._curr.token_type == TokenType.L_PAREN else ()
            return self._subscription(name, parameters, required=True)
        if self._match_text_seq("VIEW"):
            return self._create_view()
        nearest = nearest_name(self._curr.text if self._curr else "", ("VIEW", "TABLE", "STREAM", "SUBSCRIPTION"))
        hint = f"did you mean `{nearest}`?" if nearest else "write CREATE VIEW, STREAM, TABLE or SUBSCRIPTION"
        self.refuse(
            "B1008", f"CREATE {self._curr.text if self._curr else ''} is not a statement".replace("  ", " "), hint=hint
        )

    def _create_view(self) -> Statement:
        self._match_text_seq("IF", "NOT", "EXISTS")
        path = self._path("the name of the view")
        columns = self._view_columns() if self._match(TokenType.L_PAREN) else ()
        if not self._match(TokenType.ALIAS):
            self.expected("`AS`", f"write `CREATE VIEW {path.text} AS SELECT ...`")
        if columns:
            query = named_columns(self._query(), [c.text for c in columns])
            return DefineView(span=self._span(), doc=self.raw.doc, path=path, query=query)
        if self._curr and self._at_distinct_on():
            return self._distinct_on(path)
        if self._curr and self._curr.text.upper() == "STREAM" and self._next.text.upper() == "ON":
            self._advance()
            return self._subscription(path, (), required=False)
        query = self._query()
        kind = DefineLocalQuery if path.owner else DefineView
        return kind(span=self._span(), doc=self.raw.doc, path=path, query=query)

    def _subscription(
        self, path: DottedName, parameters: tuple[TemplateParameter, ...], *, required: bool
    ) -> CreateSubscription:
        on = ChangeKind.ADD
        if self._match(TokenType.ON):
            word = self._curr.text.upper() if self._curr else ""
            if word not in CHANGES:
                hint = "write ON ADD, ON CHANGE or ON DELETE"
                self.refuse("B1018", f"a subscription is ON ADD, CHANGE or DELETE, not {shown(self._curr)}", hint=hint)
            self._advance()
            on = CHANGES[word]
        elif required:
            hint = f"write `CREATE SUBSCRIPTION {path.text} ON ADD AS SELECT ...`"
            self.refuse("B1018", f"subscription `{path.text}` has no kind of change", hint=hint)
        if not self._match(TokenType.ALIAS) and required:
            self.expected("`AS`")
        return CreateSubscription(
            span=self._span(), doc=self.raw.doc, path=path, on=on, query=self._query(), parameters=parameters
        )

    def _create_input(self, kind: InputKind) -> CreateInput:
        self._match_text_seq("IF", "NOT", "EXISTS")
        name = self._name(f"the name of the {kind}")
        like, options = self._source_clauses()
        if like is not None and not (self._curr and self._curr.token_type == TokenType.L_PAREN):
            clauses = self._input_clauses()
            return CreateInput(
                span=self._span(),
                doc=self.raw.doc,
                kind=kind,
                name=name,
                columns=(),
                like=like,
                options=options,
                clauses=clauses,
            )
        if not self._match(TokenType.L_PAREN):
            selected = self._curr and self._curr.token_type == TokenType.ALIAS
            hint = (
                f"write `{name.text} := SELECT ...`"
                if selected
                else f"write `CREATE {kind.upper()} {name.text} (column TYPE, ...)`"
            )
            self.expected("`(` and the columns", hint)
        columns: list[ColumnDefinition] = []
        key: list[Part] = []
        watermarks = []
        computed: list[ComputedColumn] = []
        checks: list[CheckClause] = []
        while True:
            if self._at_primary_key():
                key += self._primary_key()
            elif self._at_check():
                found = self._check()
                checks += [found] if found is not None else []
            elif self._at_words("WATERMARK", "FOR"):
                watermarks.append(self._watermark())
            elif self._is_name(self._curr) and self._next and self._next.token_type == TokenType.ALIAS:
                computed.append(self._computed_column())
            elif self._curr and self._curr.token_type != TokenType.R_PAREN:
                column, is_key, own = self._column_definition()
                checks += own
                columns.append(column)
                key += [column.name] if is_key else []
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        before, given = self._source_clauses()
        clauses = self._input_clauses(watermarks)
        after, more = self._source_clauses()
        return CreateInput(
            span=self._span(), doc=self.raw.doc, kind=kind, name=name, columns=tuple(columns), primary_key=tuple(key),
            clauses=clauses, computed=tuple(computed), checks=tuple(checks), like=like or before or after,
            options=(*options, *given, *more),
        )  # fmt: skip
