"""Dialect of SQRL: sqlglot's Spark dialect with the additions of Belvedere.

In: tokens of one statement. Out: sqlglot trees in the form that `belvedere.syntax.query_tree` describes. Nothing is
resolved here. `belvedere.syntax.parse` reads statements that are not queries; `belvedere.syntax.forms.windowing_calls`
reads windowing calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.fmt.query_text import SqrlGenerator
from belvedere.syntax.forms.builders import (
    CALLED,
    CASTING,
    ROUNDING,
    UNITS,
    called,
    casting,
    make_interval,
    of_now,
    rounded,
    rounding,
    time_difference,
)
from belvedere.syntax.forms.json_paths import json_step, json_text
from belvedere.syntax.forms.literals import TIME_TYPES, check_time
from belvedere.syntax.forms.pipes import PipeParser
from belvedere.syntax.forms.windowing_calls import parse_window_call, starts_window_call
from belvedere.syntax.problems import Problem, near_keyword, shown
from belvedere.syntax.query_tree import EmitClause
from belvedere.syntax.spl.window_parser import (
    at_clause,
    at_options,
    at_suffix,
    mentions_window,
    parse_clauses,
    parse_options,
    parse_suffix,
    refuse_other,
)
from belvedere.syntax.spl.window_tree import SplClause

EMIT_FORMS = (
    "write EMIT STREAM, or EMIT [STREAM] with AFTER WATERMARK, AFTER DELAY d, or AFTER DELAY d AND AFTER WATERMARK"
)

AFTER_ITEMS = {
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
    TokenType.UNION,
    TokenType.EXCEPT,
    TokenType.INTERSECT,
    TokenType.QUALIFY,
    TokenType.WINDOW,
    TokenType.LATERAL,
    TokenType.R_PAREN,
    TokenType.COMMA,
    TokenType.JOIN,
    TokenType.SENTINEL,
}


class SqrlParser(PipeParser):
    """Parser with intervals, EMIT, SELECT STREAM and windowing calls."""

    _stream_window: exp.Expr | None = None
    """The window after a stream in FROM, until the parser has created the stream's node."""
    _spl_window: SplClause | None = None
    """SPL's window after a table in FROM, until the parser has created the table's node."""
    _names_entry = False
    """Whether the name of an entry of WITH comes next."""
    _bare_numbers = False
    """Whether a number is only a number, as inside INTERVAL, and does not begin `n UNIT`."""

    SUPPORTS_TABLE_QUERY: ClassVar[bool] = True
    STRICT_CAST: ClassVar[bool] = True
    ADD_JOIN_ON_TRUE: ClassVar[bool] = False

    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **PipeParser.FUNCTIONS,
        **{unit: rounding(unit) for unit in ROUNDING},
        **{name: casting(name) for name in CASTING},
        **{name.upper(): called(name) for name in CALLED},
        **dict.fromkeys(("DATEDIFF", "DATE_DIFF"), time_difference),
        "DATE_SUB": lambda args: exp.Anonymous(this="date_sub", expressions=args),  # of a text, not a product with -1
        "NOW": lambda args: exp.CurrentTimestamp(),
        "COLLECT": PipeParser.FUNCTIONS["COLLECT_LIST"],  # Flink's multiset: a list with the same values
        **dict.fromkeys(("CURRENT_DATE", "CURDATE"), lambda args: of_now("current_date", "date")),
        "LOCALTIMESTAMP": lambda args: of_now("localtimestamp", "timestamp_ntz"),
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {
        **SparkParser.NO_PAREN_FUNCTIONS,
        TokenType.CURRENT_DATE: lambda: of_now("current_date", "date"),
    }

    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **SparkParser.NO_PAREN_FUNCTION_PARSERS,
        "ANY": lambda self: self._any(),
    }

    FUNC_TOKENS: ClassVar[set[TokenType]] = {*SparkParser.FUNC_TOKENS, TokenType.SESSION}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k not in ("AND", "OR")
    }

    COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {
        **PipeParser.COLUMN_OPERATORS,
        TokenType.ARROW: json_step,
        TokenType.DARROW: json_text,
    }
    COLON_IS_VARIANT_EXTRACT: ClassVar[bool] = True

    # -- intervals ----------------------------------------------------------------------------------------------------

    def _take_interval(self, skip: int) -> exp.Interval | None:
        """Parse `n UNIT`, after `skip` tokens (the word INTERVAL)."""
        count, unit, after = self._token(skip), self._token(skip + 1), self._token(skip + 2)
        kinds = (TokenType.NUMBER, TokenType.STRING) if skip else (TokenType.NUMBER,)
        if not count or not unit or count.token_type not in kinds or unit.text.upper() not in UNITS:
            return None
        if unit.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or (
            after and after.token_type == TokenType.L_PAREN and not skip
        ):
            return None
        if after and (
            after.text.upper() == "TO" or (skip and after.token_type in (TokenType.NUMBER, TokenType.STRING))
        ):
            return None
        if not re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*", count.text):
            hint = "write INTERVAL '1' DAY, or INTERVAL '1 02:03:04' DAY TO SECOND"
            self.refuse("B1024", f"'{count.text}' is not a number of units", count, hint=hint)
        first = self._curr
        self._advance(skip + 2)
        interval = make_interval(count.text, unit.text)
        for node in (interval, interval.this, interval.args["unit"]):
            self._covered(node, first)
        return interval

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        if self._curr.token_type == TokenType.NUMBER and not self._bare_numbers:
            interval = self._take_interval(0)
            if interval:
                return interval
        word, text = self._curr, self._next
        found = super()._parse_type(parse_interval, fallback_to_identifier)
        if (
            isinstance(found, exp.Cast)
            and text
            and text.token_type == TokenType.STRING
            and word.token_type in TIME_TYPES
        ):
            self._covered(found, word)
            check_time(found, text)
        return found

    def _parse_types(self, check_func: bool = False, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Parse as sqlglot does. Where only a type is allowed, `ROW<a INT>` and `ROW(a INT)` are STRUCT<a INT>, and
        BYTES is BINARY."""
        curr, after = self._curr, self._next
        if curr and not check_func:
            if curr.token_type == TokenType.ROW and after and after.token_type in (TokenType.LT, TokenType.L_PAREN):
                curr.token_type = TokenType.STRUCT
            elif curr.token_type == TokenType.VAR and curr.text.upper() == "BYTES":
                curr.token_type = TokenType.BINARY
        return super()._parse_types(check_func, *args, **kwargs)  # type: ignore[no-any-return]

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        first = self._curr
        if self._curr.token_type == TokenType.INTERVAL:
            interval = self._take_interval(1)
            if interval:
                return interval
            self._refuse_quoted_unit()
        before, self._bare_numbers = self._bare_numbers, True
        try:
            node: exp.Expr | None = super()._parse_interval(require_interval, parse_function_unit)
            if isinstance(node, exp.Add):  # `INTERVAL 1 DAY 2 HOURS` is one interval
                node = exp.Paren(this=self._covered(node, first))
            return self._covered(node, first)
        finally:
            self._bare_numbers = before

    def _refuse_quoted_unit(self) -> None:
        count, unit = self._token(1), self._token(2)
        if (
            count
            and unit
            and unit.token_type == TokenType.STRING
            and count.token_type in (TokenType.STRING, TokenType.NUMBER)
        ):
            self.refuse(
                "B3048", f"'{unit.text}' is not a unit", unit, hint="write the unit as a word: INTERVAL '1' DAY"
            )

    def _parse_ceil_floor(self, expr_type: Any) -> Any:
        """Parse FLOOR and CEIL. `FLOOR(t TO HOUR)` rounds like `hour(t)`; `CEIL(t TO HOUR)` is the end of the current
        hour."""
        node = super()._parse_ceil_floor(expr_type)
        unit = node.args.get("to")
        if unit is None:
            return node
        if unit.name.upper() not in ROUNDING:
            hint = f"write one of the words {', '.join(reversed(ROUNDING))}"
            self.refuse("B3048", f"`{unit.name}` is not a unit", self._prev, hint=hint)
        return rounded(node.this, unit.name.upper(), up=expr_type is exp.Ceil)

    def _any(self) -> exp.Expr:
        """Parse `x = ANY (...)` and `x LIKE ANY (...)`; otherwise `any(x)` is the aggregate `bool_or(x)`."""
        word, before = self._prev, self._token(-2)
        compared = before is not None and before.token_type in (*self.EQUALITY, *self.COMPARISON, *self.RANGE_PARSERS)
        if compared or not self._match(TokenType.L_PAREN):
            return exp.Any(this=self._parse_unary())
        node = exp.LogicalOr(this=self._parse_lambda())
        node.meta["written"] = "any"
        self._match_r_paren()
        return self._covered(node, word)  # type: ignore[no-any-return]

    # -- select items -------------------------------------------------------------------------------------------------

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        """Parse select items. If a comma is missing, report it and continue as if it were there."""
        if not self._curr or self._curr.token_type in AFTER_ITEMS:
            self.refuse("B1002", "a SELECT needs at least one item", hint="name columns, or write `*`")
        self._refuse_top()
        items = [self._select_item()]
        while True:
            if self._match(TokenType.COMMA):
                if not self._curr or self._curr.token_type in (TokenType.FROM, TokenType.R_PAREN):
                    self.refuse(
                        "B1003", "a select item is missing after the comma", self._prev, hint="remove the comma"
                    )
                items.append(self._select_item())
            elif self._comma_is_missing(items):
                items.append(self._select_item())
            else:
                return items, None

    def _refuse_top(self) -> None:
        """Reject `SELECT TOP 5`, the limit of other systems, with a hint."""
        count = self._token(2) if self._next and self._next.token_type == TokenType.L_PAREN else self._next
        if (
            self._curr.text.upper() == "TOP"
            and count
            and count.token_type == TokenType.NUMBER
            and count.start > self._curr.end
        ):
            self.refuse(
                "B1001", "SELECT TOP is not supported", hint=f"write LIMIT {count.text} at the end of the query"
            )

    def _comma_is_missing(self, items: list[exp.Expr]) -> bool:
        if not self._curr or self._curr.token_type in AFTER_ITEMS or self._at_emit():
            return False
        last = items[-1]
        implicit = isinstance(last, exp.Alias) and not self._said_as()
        if implicit and near_keyword(self._prev.text, ("FROM",)):
            self.refuse("B1001", f"unexpected `{self._prev.text}`", self._prev, hint="did you mean `FROM`?")
        if implicit and self._curr.token_type in (TokenType.L_PAREN, TokenType.DOT):
            items[-1] = last.this
            self._retreat(self._index - 1)
        elif self._curr.token_type not in self.ID_VAR_TOKENS | {
            TokenType.IDENTIFIER,
            TokenType.NUMBER,
            TokenType.STRING,
            TokenType.CASE,
            TokenType.L_PAREN,
        } or (self._curr.token_type == TokenType.L_PAREN and not isinstance(last, exp.Alias | exp.Column)):
            return False
        gap = self._prev.end + 1
        self.findings.append(
            Problem("B1003", "a comma is missing between select items", gap, gap, "write a comma here", ",")
        )
        return True

    def _said_as(self) -> bool:
        before = self._token(-2)
        return before is not None and before.token_type == TokenType.ALIAS

    # -- clauses of a query -------------------------------------------------------------------------------------------

    def _at_emit(self) -> bool:
        if not self._curr or self._curr.text.upper() != "EMIT" or not self._next:
            return False
        third = self._token(2)
        closes = self._next.token_type == TokenType.ON and third is not None and third.text.upper() == "WINDOW"
        return closes or self._next.text.upper() in ("STREAM", "AFTER")

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        return this if self._at_emit() else super()._parse_alias(this, explicit)

    def _parse_cte(self) -> Any:
        self._names_entry = True
        entry = super()._parse_cte()
        if isinstance(entry, exp.CTE) and "levels" in entry.args["alias"].meta:
            entry.set("levels", entry.args["alias"].meta.pop("levels"))
        return entry

    def _entry_alias(self) -> exp.TableAlias | None:
        """Parse the name of an entry of WITH, and its `MAX RECURSION LEVEL n`."""
        self._names_entry = False
        alias = super()._parse_table_alias(self.ID_VAR_TOKENS)
        if alias is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            if not self._match(TokenType.NUMBER) or not self._prev.text.isdecimal():
                self.expected("a whole number")
            alias.meta["levels"] = exp.Literal.number(self._prev.text)
        return alias

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if self._names_entry:
            return self._entry_alias()
        if self._at_emit():
            return None
        if self._curr and self._curr.token_type == TokenType.OVER:
            self._stream_window = self._parse_stream_window()
        self._take_spl_window()
        self._refuse_other_clauses()
        return super()._parse_table_alias(alias_tokens)

    def _parse_ordered(self, parse_method: Any = None) -> exp.Ordered | None:
        """Parse a sort key. `all` is a column only if it is qualified or in backticks."""
        written = (parse_method or self._parse_disjunction)()
        found = super()._parse_ordered(lambda: written)
        named = isinstance(written, exp.Column) and (written.table or written.this.args.get("quoted"))
        if found is not None and named and isinstance(found.this, exp.Var):
            found.set("this", written)
        return found

    def _parse_stream_window(self) -> exp.Expr:
        """Parse the interval of `OVER (RANGE INTERVAL '1' MINUTE PRECEDING)` after a stream in FROM."""
        first = self._curr
        self._advance()
        length = None
        if self._match(TokenType.L_PAREN) and self._match(TokenType.RANGE):
            length = self._parse_bitwise()
        if length is None or not self._match_text_seq("PRECEDING") or not self._match(TokenType.R_PAREN):
            hint = "write OVER (RANGE INTERVAL '1' MINUTE PRECEDING) after the stream"
            self.refuse("B5105", "a window of a stream in FROM must be a range of time", first, hint=hint)
        return length

    def _refuse_other_clauses(self) -> None:
        """Reject clauses of other systems that would be parsed as an alias and then have no effect."""
        word = self._curr.text.upper() if self._curr else ""
        after = self._next.text.upper() if self._next else ""
        if word == "EMIT" and after in ("CHANGES", "FINAL"):
            meant = "EMIT STREAM" if after == "CHANGES" else "EMIT AFTER WATERMARK"
            self.refuse("B1001", f"unexpected `{self._next.text}` after EMIT", self._next, hint=f"write {meant}")
        if word == "MATCH_RECOGNIZE" and after == "(":
            self.refuse(
                "B3040",
                "MATCH_RECOGNIZE is not supported",
                hint="use WINDOW BY, which finds windows of rows by conditions",
            )
        refuse_other(self)

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Parse as sqlglot does. In an SPL window `Count()` is also a call, and `ArgMin` keeps its name, because its
        arguments have another order there."""
        first, after = self._curr, self._token(2)
        called = bool(first) and self._next is not None and self._next.token_type == TokenType.L_PAREN
        name = first.text.upper() if called else ""
        if (
            name == "COUNT"
            and after is not None
            and after.token_type == TokenType.R_PAREN
            and mentions_window(self._tokens)
        ):
            self._advance(3)
            return self._covered(exp.Anonymous(this=first.text, expressions=[]), first)  # type: ignore[no-any-return]
        node = super()._parse_function_call(*args, **kwargs)
        if node is not None and name in ("ARGMIN", "ARGMAX"):
            node.meta["written"] = name.lower()
        return node

    def _take_spl_window(self) -> None:
        """Parse SPL's window after a table, in either form."""
        if at_suffix(self) or at_options(self):
            again = self._curr
            found = parse_suffix(self) if at_suffix(self) else parse_options(self)
            if self._spl_window is not None and self._spl_window.meta["start"] != found.meta["start"]:
                self.refuse("B5215", "a table has two windows", again, hint="read it twice, or define two views")
            self._spl_window = found

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        self._take_spl_window()
        return super()._parse_table_hints()

    def _parse_window_clause(self) -> list[exp.Expr] | None:
        if at_clause(self):
            return list(parse_clauses(self))
        refuse_other(self)
        return super()._parse_window_clause()

    def _parse_query_modifiers(self, this: Any) -> Any:
        query = super()._parse_query_modifiers(this)
        if isinstance(query, exp.Select) and any(isinstance(w, SplClause) for w in query.args.get("windows") or ()):
            query.set("spl", query.args["windows"])
            query.set("windows", None)
        if isinstance(query, exp.Query) and self._at_emit():
            query.set("emit", self._parse_emit())
        elif isinstance(query, (exp.Select, exp.SetOperation)) and self._curr and self._curr.text.upper() == "EMIT":
            self._refuse_other_clauses()
            self.refuse("B1001", f"unexpected {shown(self._next)} after EMIT", self._next, hint=EMIT_FORMS)
        return query

    def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
        """Parse set operations. An EMIT after the last SELECT of a union belongs to the union."""
        result = super()._parse_set_operations(this)
        if isinstance(result, exp.SetOperation):
            last: Any = result.expression
            while isinstance(last, exp.SetOperation):
                last = last.expression
            emit = last.args.get("emit") if isinstance(last, exp.Select) else None
            if emit is not None:
                last.set("emit", None)
                result.set("emit", emit)
            elif self._at_emit():
                result.set("emit", self._parse_emit())
        return result

    def _parse_emit(self) -> EmitClause:
        first = self._curr
        self._advance()
        emit = EmitClause(stream=self._match_text_seq("STREAM"))
        if self._match_text_seq("ON"):
            if not self._match_text_seq("WINDOW", "CLOSE"):
                self.refuse("B1001", f"expected WINDOW CLOSE after ON, found {shown(self._curr)}", hint=EMIT_FORMS)
            emit.set("watermark", True)
        while self._match_text_seq("AFTER"):
            if self._match_text_seq("WATERMARK"):
                emit.set("watermark", True)
            elif self._match_text_seq("DELAY"):
                delay = self._parse_bitwise()
                if delay is None:
                    self.refuse(
                        "B1002", "AFTER DELAY needs an interval", hint="write `AFTER DELAY INTERVAL '6' MINUTES`"
                    )
                emit.set("delay", delay)
            else:
                self.refuse(
                    "B1001", f"expected WATERMARK or DELAY after AFTER, found {shown(self._curr)}", hint=EMIT_FORMS
                )
            if not self._match(TokenType.AND):
                break
        if self._curr and (self._curr.token_type == TokenType.VAR or self._curr.text.upper() == "AFTER"):
            self.refuse("B1001", f"unexpected {shown(self._curr)}", hint=EMIT_FORMS)
        return self._covered(emit, first)  # type: ignore[no-any-return]

    def _parse_order(self, this: exp.Expr | None = None, skip_order_token: bool = False) -> exp.Expr | None:
        order = super()._parse_order(this, skip_order_token)
        if isinstance(order, exp.Order) and self._curr.text.upper() == "WITHIN" and self._next.text.upper() != "GROUP":
            self._advance()
            order.set("within", self._parse_bitwise())
        return order

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first = self._curr
        query = super()._parse_select_query(*args, **kwargs)
        if first and first.token_type == TokenType.SELECT:
            node: Any = query
            while isinstance(node, exp.SetOperation):
                node = node.this
            if isinstance(node, exp.Select):
                node.meta["start"] = node.meta.get("start", first.start)
                if first.start in self.stream_selects:
                    node.set("stream", True)
        return query

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if starts_window_call(self._curr, self._next, self._token(2)):
            return parse_window_call(self)
        before, self._stream_window, self._spl_window = (self._stream_window, self._spl_window), None, None
        table = super()._parse_table(*args, **kwargs)
        self._take_spl_window()
        if table is not None and self._spl_window is not None and not table.args.get("alias"):
            table.set("alias", self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS))
        for name, window in (("over", self._stream_window), ("spl", self._spl_window)):
            if window is not None and table is not None:
                table.set(name, window)
        self._stream_window, self._spl_window = before
        return table


class Sqrl(SparkSql):
    """Dialect of scripts."""

    class Tokenizer(SparkSql.Tokenizer):
        # since Spark 4, 'it''s' is one text that contains a quote, as in standard SQL
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{k: v for k, v in SparkSql.Tokenizer.KEYWORDS.items() if k not in ("/*+", "?::", "??")},
            "MATCH_CONDITION": TokenType.MATCH_CONDITION,
        }

    Parser = SqrlParser
    Generator = SqrlGenerator
