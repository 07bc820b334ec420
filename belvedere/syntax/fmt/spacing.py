"""Keywords, and spaces between two words of a line.

In: words of a statement. Out: decisions about pairs of adjacent words. The module does not handle lines.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType as T

from belvedere.syntax.fmt.words import Word

KEYWORD_TYPES = frozenset(
    (
        T.SELECT, T.FROM, T.WHERE, T.GROUP_BY, T.HAVING, T.ORDER_BY, T.LIMIT, T.OFFSET, T.UNION, T.EXCEPT,
        T.INTERSECT, T.DISTINCT, T.ALL, T.ON, T.USING, T.JOIN, T.LEFT, T.RIGHT, T.FULL, T.INNER, T.OUTER, T.CROSS,
        T.SEMI, T.ANTI, T.ALIAS, T.AND, T.OR, T.NOT, T.IN, T.IS, T.NULL, T.TRUE, T.FALSE, T.BETWEEN, T.LIKE, T.ILIKE,
        T.CASE, T.WHEN, T.THEN, T.ELSE, T.END, T.WITH, T.CREATE, T.INTERVAL, T.ASC, T.DESC, T.OVER, T.PARTITION_BY,
        T.EXISTS, T.QUALIFY, T.VALUES, T.LATERAL, T.PRIMARY_KEY, T.VIEW, T.TABLE, T.ESCAPE, T.RLIKE, T.ROWS, T.RANGE,
        T.WINDOW,
    )
)  # fmt: skip
KEYWORDS = frozenset(
    (
        "IMPORT", "EXPORT", "TO", "STREAM", "SUBSCRIPTION", "SUBSCRIBE", "REPLACE", "ADD", "CHANGE", "UPDATE", "DELETE",
        "EMIT", "AFTER", "WATERMARK", "DELAY", "FOR", "LATE", "REJECT", "DROP", "KEEP", "IDLE", "HISTORY", "WITHIN",
        "NULLS", "FIRST", "LAST", "PRECEDING", "FOLLOWING", "UNBOUNDED", "CURRENT", "ROW", "FILTER", "RECURSIVE",
        "SECOND", "SECONDS", "MINUTE", "MINUTES", "HOUR", "HOURS", "DAY", "DAYS", "WEEK", "WEEKS", "MONTH", "MONTHS",
        "QUARTER", "QUARTERS", "YEAR", "YEARS",
        "MILLISECOND", "MILLISECONDS", "MICROSECOND", "MICROSECONDS", "SYSTEM_TIME", "OF", "DESCRIPTOR",
        "CHECK", "DEFAULT", "METADATA", "CONSTRAINT", "ENFORCED",
    )
)  # fmt: skip
OPERATORS = frozenset(
    (
        T.PLUS, T.DASH, T.STAR, T.SLASH, T.MOD, T.EQ, T.NEQ, T.LT, T.LTE, T.GT, T.GTE, T.DPIPE, T.AMP, T.PIPE, T.CARET,
        T.COLON_EQ, T.FARROW, T.ARROW, T.NULLSAFE_EQ, T.TILDE,
    )
)  # fmt: skip
NO_SPACE_AFTER = frozenset((T.DOT, T.L_PAREN, T.L_BRACKET, T.COLON, T.PARAMETER, T.DCOLON, T.TILDE))
NO_SPACE_BEFORE = frozenset((T.DOT, T.COMMA, T.R_PAREN, T.R_BRACKET, T.SEMICOLON, T.DCOLON))
# Words that are function names if a bracket follows directly: they keep their spelling.
CALLED = frozenset(
    (
        "LEFT",
        "RIGHT",
        "REPLACE",
        "FIRST",
        "LAST",
        "SECOND",
        "MINUTE",
        "HOUR",
        "DAY",
        "WEEK",
        "MONTH",
        "QUARTER",
        "YEAR",
        "RANGE",
    )
)
CALLED_KEYWORDS = frozenset(("FILTER", "DESCRIPTOR", "TABLE"))


def space_between(before_last: Word | None, last: Word, word: Word) -> bool:
    """Return whether a space separates `last` and `word`."""
    if last.typed and word.typed:
        return not word.adjacent
    if word.kind == T.COLON and word.adjacent and last.kind == T.VAR:
        return False
    if last.kind == T.COLON:
        return not word.adjacent
    if _in_variable(before_last, last, word):
        return False
    if last.kind in NO_SPACE_AFTER or word.kind in NO_SPACE_BEFORE:
        return False
    if word.kind in (T.L_PAREN, T.L_BRACKET):
        return not (word.adjacent and _can_be_called(last))
    return not (last.kind in (T.DASH, T.PLUS) and _is_unary(before_last))


def _in_variable(before_last: Word | None, last: Word, word: Word) -> bool:
    """Return whether two words are parts of `{{name}}`."""
    kinds = (before_last.kind if before_last is not None else None, last.kind, word.kind)
    pairs = ((T.L_BRACE, T.L_BRACE), (T.R_BRACE, T.R_BRACE))
    return kinds[1:] in pairs or kinds[:2] == (T.L_BRACE, T.L_BRACE) or (kinds[0], kinds[2]) == (T.L_BRACE, T.R_BRACE)


def _can_be_called(word: Word) -> bool:
    if word.kind in (T.COMMA, *OPERATORS):
        return False
    return not word.keyword or word.text.upper() in CALLED_KEYWORDS


def _is_unary(before: Word | None) -> bool:
    if before is None or before.kind in OPERATORS or before.kind in (T.COMMA, T.L_PAREN, T.L_BRACKET):
        return True
    return before.keyword and before.text.upper() not in ("NULL", "TRUE", "FALSE", "END")
