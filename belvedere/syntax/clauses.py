"""Parts of statements: names, paths, columns, types, parameters, WATERMARK, LATE, KEEP.

In: the parser's tokens. Out: the parts' dataclasses of `belvedere.syntax.statement_tree`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.catalog.inputs import LatePolicy
from belvedere.errors import Span
from belvedere.syntax.dialect import SqrlParser
from belvedere.syntax.forms.rewriting import rewritten
from belvedere.syntax.positions import TokenMap, locate
from belvedere.syntax.problems import shown
from belvedere.syntax.query_checks import rounding_calls
from belvedere.syntax.splitting import RawStatement, Tokens
from belvedere.syntax.statement_tree import (
    CheckClause,
    ColumnDefinition,
    ComputedColumn,
    DottedName,
    HistoryClause,
    InputClauses,
    MetadataClause,
    OptionClause,
    Part,
    TemplateParameter,
    WatermarkClause,
)
from belvedere.syntax.supported import unsupported
from belvedere.syntax.wording import nearest_name

N = TypeVar("N", bound=exp.Expr)


def variable_text(name: str) -> str:
    """Return a variable of the project file as written in a script."""
    return f"{{{{{name}}}}}"


TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "NUMERIC", "STRING",
    "TEXT", "VARCHAR", "CHAR", "BINARY", "DATE", "TIMESTAMP", "ARRAY", "STRUCT", "MAP",
)  # fmt: skip


def cut_history(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """Split off `WITH HISTORY [KEEP interval]` at the end of a statement; return both token lists. Inputs parse the
    clause with their other clauses."""
    first = [t.text.upper() for t in tokens[:4]]
    if first[:1] == ["IMPORT"] or (first[:1] == ["CREATE"] and {"TABLE", "STREAM"} & set(first[1:])):
        return tokens, []
    for n in range(len(tokens) - 2, 0, -1):
        if tokens[n].token_type == TokenType.WITH and tokens[n + 1].text.upper() == "HISTORY":
            rest = tokens[n + 2 :]
            return (tokens[:n], tokens[n:]) if not rest or rest[0].text.upper() == "KEEP" else (tokens, [])
    return tokens, []


class ClauseParser(SqrlParser):
    """Parses parts of statements. The statement parser sets `raw`, `text`, `file` and `read`."""

    raw: RawStatement
    text: str
    file: str
    read: Tokens
    _map: TokenMap

    def _place(self, node: N) -> N:
        """Return the node with positions and with rewritten forms. Raises a problem if a part of it would be
        ignored."""
        locate(node, self._map)
        for problem in unsupported(node):
            raise problem
        self.findings += rounding_calls(node, self.text)
        return cast(N, rewritten(node))

    def _at_words(self, *words: str) -> bool:
        return all((t := self._token(i)) is not None and t.text.upper() == w for i, w in enumerate(words))

    def _matched(self, *words: str) -> bool:
        """Return whether these words are next, and consume them."""
        found = self._at_words(*words)
        if found:
            self._advance(len(words))
        return found

    def _since(self, first: Token) -> Span:
        """Return the span from a token to the last one read."""
        return Span(self.file, first.start, self._prev.end + 1)

    def _expression(self) -> exp.Expr:
        node = self._parse_disjunction()
        if node is None:
            self.refuse("B1002", f"expected an expression, found {shown(self._curr)}")
        return self._place(node)

    # -- names --------------------------------------------------------------------------------------------------------

    def _is_name(self, token: Token | None) -> bool:
        if not token:
            return False
        if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            return True
        return token.token_type not in (TokenType.STRING, TokenType.NUMBER) and token.text.isidentifier()

    def _part(self, token: Token) -> Part:
        return Part(token.text, Span(self.file, token.start, token.end + 1), token.token_type == TokenType.IDENTIFIER)

    def _name(self, what: str) -> Part:
        if not self._is_name(self._curr):
            self.expected(what)
        self._advance()
        return self._part(self._prev)

    def _path_or_none(self) -> DottedName | None:
        return self._path("a name") if self._is_name(self._curr) else None

    def _path(self, what: str, *, star: bool = False, variables: bool = False) -> DottedName:
        """Parse names separated by dots. With `star`, the parser stops before a last `.*`, which the caller reads.

        With `variables` a name may be `{{name}}`.
        """
        parts = [self._variable_or_name(what) if variables else self._name(what)]
        while self._match(TokenType.DOT):
            if star and self._curr.token_type == TokenType.STAR:
                break
            after = "a name after the dot"
            parts.append(self._variable_or_name(after) if variables else self._name(after))
        return DottedName(tuple(parts))

    def _view_columns(self) -> tuple[Part, ...]:
        """Parse the column names in brackets after a view's name."""
        columns = [self._name("the name of a column")]
        while self._match(TokenType.COMMA):
            columns.append(self._name("the name of a column"))
        self._match_r_paren()
        return tuple(columns)

    def _order(self) -> tuple[exp.Ordered, ...]:
        order = self._parse_order()
        return () if order is None else tuple(self._place(order).expressions)

    def _limit(self) -> tuple[int | None, str | None]:
        """Parse `LIMIT n` to a number, or `LIMIT :n` to the name of a parameter."""
        if not self._match(TokenType.LIMIT):
            return None, None
        token = self._curr
        if token and token.token_type in (TokenType.COLON, TokenType.PARAMETER):
            given = self._parse_unary()
            if isinstance(given, (exp.Placeholder, exp.Parameter)):
                return None, given.name
        if not token or token.token_type != TokenType.NUMBER or not token.text.isdigit() or int(token.text) < 1:
            self.refuse("B1012", f"LIMIT needs a whole number of at least 1, found {shown(token)}")
        self._advance()
        return int(token.text), None

    def _variable_or_name(self, what: str) -> Part:
        """Parse a name, or `{{name}}`, a variable of the project file; the text of that part includes the braces."""
        first = self._curr
        if first is None or first.token_type != TokenType.L_BRACE:
            return self._name(what)
        self._advance()
        if not self._match(TokenType.L_BRACE):
            self.expected("`{{`", "write `{{name}}`, with `name` among the [variables] of belvedere.toml")
        name = self._name("the name of a variable")
        if not (self._match(TokenType.R_BRACE) and self._match(TokenType.R_BRACE)):
            self.expected("`}}`")
        return Part(variable_text(name.text), self._since(first))

    # -- columns ------------------------------------------------------------------------------------------------------

    def _type(self, owner: str) -> exp.DataType:
        token = self._curr
        data_type: Any = self._parse_types(allow_identifiers=False) if token else None
        if not isinstance(data_type, exp.DataType):
            nearest = nearest_name(token.text, TYPES) if token else None
            if token and token.text.upper() == "MULTISET":
                self.refuse("B1019", "MULTISET is not supported", token, hint="write ARRAY<...>: a list of the values")
            hint = f"did you mean `{nearest}`?" if nearest else "a type is " + ", ".join(TYPES[:12]) + ", ..."
            self.refuse("B1019", f"`{owner}` needs a type, found {shown(token)}", token, hint=hint)
        return self._place(data_type)

    def _at_check(self) -> bool:
        """Return whether `[CONSTRAINT name] CHECK` begins here."""
        named = self._curr and self._curr.token_type == TokenType.CONSTRAINT
        check, bracket = self._token(2 if named else 0), self._token(3 if named else 1)
        if check is None or bracket is None or not check or not bracket:
            return False
        return check.text.upper() == "CHECK" and bracket.token_type == TokenType.L_PAREN

    def _check(self) -> CheckClause | None:
        """Parse the condition. NOT ENFORCED makes it documentation only: it is not checked."""
        first, name = self._curr, None
        if self._match(TokenType.CONSTRAINT):
            name = self._name("the name of the CHECK").text
        self._advance(2)
        condition = self._expression()
        self._match_r_paren()
        if self._match_text_seq("NOT", "ENFORCED"):
            return None
        self._match_text_seq("ENFORCED")
        return CheckClause(name=name, condition=condition, span=self._since(first))

    def _column_definition(self) -> tuple[ColumnDefinition, bool, list[CheckClause]]:
        """Parse a column. Return it, whether it has PRIMARY KEY, and its checks."""
        first = self._curr
        doc = self._doc_at(first)
        name = self._name("the name of a column")
        data_type = self._type(name.text)
        nullable, is_key, metadata, default = True, False, None, None
        checks: list[CheckClause] = []
        while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            if self._match_text_seq("NOT", "NULL"):
                nullable = False
            elif self._match_text_seq("NULL"):
                nullable = True
            elif self._match(TokenType.PRIMARY_KEY):
                nullable, is_key = False, True
                self._match_text_seq("NOT", "ENFORCED")
            elif self._curr.text.upper() == "METADATA":
                metadata = self._metadata(name)
            elif self._match_text_seq("DEFAULT"):
                default = self._expression()
            elif self._at_check():
                found = self._check()
                checks += [found] if found is not None else []
            elif self._match_text_seq("COMMENT") and self._curr and self._curr.token_type == TokenType.STRING:
                doc = self._curr.text
                self._advance()
            else:
                hint = (
                    "a column is `name TYPE [NOT NULL] [PRIMARY KEY] [DEFAULT value] [CHECK (condition)]`; commas "
                    "separate columns"
                )
                self.refuse("B1001", f"unexpected {shown(self._curr)} in column `{name.text}`", hint=hint)
        span = self._since(first)
        made = ColumnDefinition(
            name=name, type=data_type, nullable=nullable, doc=doc, metadata=metadata, default=default, span=span
        )
        return made, is_key, checks

    def _computed_column(self) -> ComputedColumn:
        first = self._curr
        doc = self._doc_at(first)
        name = self._name("the name of a column")
        self._match(TokenType.ALIAS)
        return ComputedColumn(name=name, expression=self._expression(), doc=doc, span=self._since(first))

    def _metadata(self, column: Part) -> MetadataClause:
        """Parse `METADATA [FROM 'name'] [VIRTUAL]`; the default name is that of the column. VIRTUAL has no effect."""
        first = self._curr
        self._advance()
        name = column.text
        if self._match(TokenType.FROM):
            if not self._curr or self._curr.token_type != TokenType.STRING:
                self.expected("a name in quotes", "write METADATA FROM 'timestamp', 'uuid' or 'auth.claim'")
            name = self._curr.text
            self._advance()
        self._match_text_seq("VIRTUAL")
        return MetadataClause(name=name, span=self._since(first))

    def _doc_at(self, token: Token) -> str | None:
        """Return the doc comment before a token of this statement."""
        comments = [c for c in token.comments if c.startswith("*")] if token.comments else []
        if self._prev and self._prev.comments:
            comments += [c for c in self._prev.comments if c.startswith("*")]
        return comments[-1].lstrip("*").strip() if comments else None

    def _at_primary_key(self) -> bool:
        """Return whether `[CONSTRAINT name] PRIMARY KEY` begins here."""
        key = self._token(2) if self._curr and self._curr.token_type == TokenType.CONSTRAINT else self._curr
        return key is not None and bool(key) and key.token_type == TokenType.PRIMARY_KEY

    def _primary_key(self) -> list[Part]:
        self._advance(1 if self._curr.token_type == TokenType.PRIMARY_KEY else 3)
        if not self._match(TokenType.L_PAREN):
            self.expected("`(` after PRIMARY KEY")
        parts: list[Part] = self._parse_csv(lambda: self._name("the name of a column"))
        self._match_r_paren()
        self._match_text_seq("NOT", "ENFORCED")
        return parts

    def _parameters(self) -> tuple[TemplateParameter, ...]:
        """Parse `(name TYPE, ...)` or `(@name: TYPE = default)`."""
        self._advance()
        parameters: list[TemplateParameter] = []
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            first = self._curr
            self._match(TokenType.COLON)
            name = self._name("the name of a parameter")
            self._match(TokenType.COLON)
            data_type = self._type(name.text)
            self._match_text_seq("NOT", "NULL")
            metadata = self._metadata(name) if self._at_words("METADATA", "FROM") else None
            default = self._expression() if self._match(TokenType.EQ) else None
            span = self._since(first)
            parameters.append(
                TemplateParameter(name=name, type=data_type, default=default, metadata=metadata, span=span)
            )
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return tuple(parameters)

    # -- clauses after an input ---------------------------------------------------------------------------------------

    def _watermark(self) -> WatermarkClause:
        first = self._curr
        self._advance(2)
        column = self._name("the name of a column")
        expression = self._expression() if self._match(TokenType.ALIAS) else None
        if expression is None and self._matched("DELAY", "OF"):
            expression = exp.Sub(
                this=exp.column(exp.to_identifier(column.text, quoted=True)), expression=self._interval("DELAY OF")
            )
        idle_after = self._interval("IDLE AFTER") if self._matched("IDLE", "AFTER") else None
        return WatermarkClause(column=column, expression=expression, idle_after=idle_after, span=self._since(first))

    def _interval(self, what: str) -> exp.Interval:
        token = self._curr
        node = self._parse_unary() if token else None
        if not isinstance(node, exp.Interval):
            hint = f"write `{what} 7 DAYS` or `{what} INTERVAL '7' DAYS`"
            self.refuse("B1020", f"{what} needs an interval, found {shown(token)}", token, hint=hint)
        return self._place(node)

    def _history_clause(self) -> HistoryClause:
        """Parse `WITH HISTORY [KEEP interval]`, to the end of the statement."""
        first = self._curr
        self._advance(2)
        keep = self._interval("KEEP") if self._matched("KEEP") else None
        if self._curr:
            self.refuse(
                "B1001",
                f"unexpected {shown(self._curr)}",
                hint="write WITH HISTORY [KEEP interval] at the end of a definition",
            )
        return HistoryClause(keep=keep, span=self._since(first))

    def _source_clauses(self) -> tuple[Part | None, tuple[OptionClause, ...]]:
        """Parse `LIKE 'file'` and `WITH ('key' = 'value', ...)`, in either order."""
        like, options = None, list[OptionClause]()
        while self._curr:
            if self._curr.token_type == TokenType.LIKE:
                if like is not None:
                    self.refuse("B1013", "LIKE is said twice", hint="keep one of them")
                self._advance()
                if self._curr is None or self._curr.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
                    self.expected(
                        "a file in quotes",
                        "write `LIKE 'orders.jsonl'`: a file of JSON lines, CSV, Parquet or an Avro schema",
                    )
                like = Part(self._curr.text, Span(self.file, self._curr.start, self._curr.end + 1))
                self._advance()
            elif self._curr.token_type == TokenType.WITH and self._next and self._next.token_type == TokenType.L_PAREN:
                self._advance(2)
                options += self._parse_csv(self._option)
                self._match_r_paren()
            else:
                break
        return like, tuple(options)

    def _option(self) -> OptionClause:
        first = self._curr
        texts = []
        for what in ("the name of a setting in quotes", "a value in quotes"):
            if self._curr is None or self._curr.token_type != TokenType.STRING:
                self.expected(what, "write `WITH ('connector' = 'filesystem', 'path' = 'data/orders')`")
            texts.append(self._curr.text)
            self._advance()
            if len(texts) == 1 and not self._match(TokenType.EQ):
                self.expected("`=`")
        return OptionClause(key=texts[0], value=texts[1], span=self._since(first))

    def _input_clauses(self, before: Sequence[WatermarkClause] = ()) -> InputClauses:
        """Parse WATERMARK, LATE, KEEP, IDLE AFTER, WITH HISTORY in any order; `before` are the watermarks among the
        columns."""
        said: dict[str, Any] = {"watermarks": tuple(before)}
        while self._curr:
            first = self._curr
            if self._at_words("WATERMARK", "FOR"):
                said["watermarks"] += (self._watermark(),)
                continue
            found = self._input_clause()
            if found is None:
                break
            if found[0] in said:
                self.refuse("B1013", f"{first.text.upper()} is given twice", first, hint="keep one of them")
            said.update([found])
        return InputClauses(**said)

    def _input_clause(self) -> tuple[str, object] | None:
        """Parse a clause that may occur once; return it with the name of its field."""
        first = self._curr
        if self._matched("LATE"):
            return "late", self._late()
        if self._matched("KEEP"):
            return "keep", self._interval("KEEP")
        if self._matched("IDLE", "AFTER"):
            return "idle_after", self._interval("IDLE AFTER")
        if self._matched("WITH", "HISTORY"):
            return "history", self._since(first)
        return None

    def _late(self) -> LatePolicy:
        word = self._curr.text.lower() if self._curr else ""
        if word not in tuple(LatePolicy):
            self.refuse("B1021", f"LATE is REJECT, DROP or KEEP, not {shown(self._curr)}")
        self._advance()
        return LatePolicy(word)
