"""Syntax errors with positions and Belvedere's messages.

In: a token and its error, or a message of sqlglot. Out: `Problem`s, which `belvedere.syntax.parse` converts to
diagnostics.
"""

from __future__ import annotations

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

from belvedere.errors import Severity
from belvedere.syntax.wording import distance, nearest_name

CLAUSE_WORDS = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "UNION", "SELECT")
OTHER_STATEMENTS = {
    "INSERT": "write `V := SELECT ...` and `EXPORT V TO sink.Name`",
    "BEGIN": "remove it: all views of a script change in one transaction",
    "EXECUTE": "remove it: all views of a script change in one transaction",
    "END": "remove it: all views of a script change in one transaction",
    "SET": "write settings in belvedere.toml",
    "USE": "declare sources and sinks in belvedere.toml, and name them in the script: IMPORT source.Table",
    "DROP": "remove the definition from the script",
    "ALTER": "change the definition, or write `T.column := expression` after it",
    "UPDATE": "views follow their inputs: change the rows of an input",
    "DELETE": "views follow their inputs: change the rows of an input",
}
"""Hints for statements of other systems."""


class Problem(ParseError):
    """A syntax error at a token. The parser raises it; `belvedere.syntax.parse` converts it to a diagnostic."""

    def __init__(self, code: str, message: str, start: int, end: int, hint: str | None = None, fix: str | None = None):
        super().__init__(message)
        self.code, self.message, self.start, self.end, self.hint, self.fix = code, message, start, end, hint, fix
        self.severity = Severity.ERROR


def near_keyword(word: str, keywords: tuple[str, ...] = CLAUSE_WORDS) -> str | None:
    """Return the keyword that a misspelt word probably is: one edit away, or two adjacent letters swapped; None if
    there is none."""
    upper = word.upper()
    if len(upper) < 3 or upper in keywords:
        return None
    return next((k for k in keywords if distance(upper, k.split(" ")[0], 1) == 1), None)


def shown(token: Token | None) -> str:
    """Return a token for messages: its text in quotes, or the end of the statement."""
    return f"`{token.text}`" if token else "the end of the statement"


def statement_meant(word: str) -> str:
    """Return the replacement for a statement with an unknown first word."""
    other = OTHER_STATEMENTS.get(word.upper())
    if other is not None:
        return other
    nearest = nearest_name(word, ("IMPORT", "EXPORT", "CREATE", "SELECT", "WITH"))
    return f"did you mean `{nearest}`?" if nearest else "write IMPORT, EXPORT, CREATE, SELECT, or `name := ...`"


def describe(message: str, token: Token | None, previous: Token | None) -> Problem:
    """Return the problem for a message of sqlglot, at the token where parsing stopped."""
    if token:
        start, end = token.start, token.end + 1
    else:
        start = end = previous.end + 1 if previous else 0
    found = shown(token)
    if message.startswith("Expecting "):
        return Problem("B1001", f"expected `{message.removeprefix('Expecting ').strip()}`, found {found}", start, end)
    if message.startswith(("Required argument", "Required keyword")):
        where = f"before {found}" if token else "at the end of the statement"
        return Problem("B1002", f"an expression is missing {where}", start, end)
    if message.startswith("Expected ") and " after " in message:
        return Problem("B1001", f"{lower_first(message)}, found {found}", start, end)
    if message.startswith("The number of provided arguments"):
        return Problem("B1014", "too many arguments for this function", start, end)
    if message.startswith("Found multiple"):
        return Problem(
            "B1013", lower_first(message).replace("'", "`").removesuffix(" clauses") + " clauses", start, end
        )
    if message.startswith("Expected table name"):
        return Problem("B1002", f"expected the name of a table, found {found}", start, end)
    if not token:
        return Problem("B1001", "the statement ends too early", start, end)
    meant = near_keyword(token.text) or (near_keyword(previous.text) if previous else None)
    return Problem("B1001", f"unexpected {found}", start, end, f"did you mean `{meant}`?" if meant else None)


def lower_first(text: str) -> str:
    """Return the text with its first letter in lower case."""
    return text[:1].lower() + text[1:]
