"""A script's text -> statements.

In: text and the file's name. Out: a `Script`: frozen statements and diagnostics. User errors never raise: after an
error parsing continues at the next statement. `belvedere.syntax.dialect` parses queries and expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.errors import Diagnostic, Fix, Span
from belvedere.syntax.forms.other_windows import other_window
from belvedere.syntax.problems import Problem, shown
from belvedere.syntax.splitting import RawStatement, Tokens, read_tokens, split
from belvedere.syntax.statement_parser import StatementParser
from belvedere.syntax.statement_tree import Script, Statement

ONCE = ("B3055",)
"""Codes reported once per script and message, at the first position."""


def parse_script(
    text: str, file: str = "script.sqrl", earlier: Script | None = None, variables: Mapping[str, str] | None = None
) -> Script:
    """Parse a whole script. Statements before the first difference from the `earlier` text of the script are reused.

    `variables` are the values of `{{name}}`; None if they are unknown.
    """
    alike = earlier is not None and earlier.file == file and "{{" not in text + earlier.text
    same = _same_length(earlier.text, text) if earlier is not None and alike else 0
    before = earlier.parsed if earlier is not None else {}
    parsed = {}
    read = read_tokens(text, file, variables)
    diagnostics = list(read.diagnostics)
    statements = []
    unread = set()
    raws = split(text, read)
    for raw in raws:
        place = raw.start, raw.end
        if any(raw.start <= start < raw.end for start, _ in read.expanded.missing):
            unread.add(_defined_by(raw.tokens).casefold())
            continue
        statement, found = parsed[place] = (raw.end <= same and before.get(place)) or parse_statement(
            raw, text, file, read
        )
        diagnostics += found
        if statement is not None:
            statements.append(statement)
        else:
            unread.add(_defined_by(raw.tokens).casefold())
    stray = read.stray_hints({raw.start for raw in raws})
    return Script(file, text, tuple(statements), _ordered(diagnostics), frozenset(unread - {""}), stray, parsed)


def _same_length(a: str, b: str) -> int:
    """Return the length of the common prefix of two texts."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _defined_by(tokens: list[Token]) -> str:
    """Return the path that a statement seems to define; empty if none."""
    words = [t.text.upper() for t in tokens[:8]]
    kinds = [t.token_type for t in tokens]
    if TokenType.COLON_EQ in kinds:
        end = kinds.index(TokenType.COLON_EQ)
        end = kinds.index(TokenType.L_PAREN) if TokenType.L_PAREN in kinds[:end] else end
        return "".join(t.text for t in tokens[:end])
    if words[0] in ("IMPORT", "CREATE"):
        ends = [i for i, k in enumerate(kinds) if k in (TokenType.ALIAS, TokenType.L_PAREN, TokenType.ON)]
        end = ends[0] if ends else len(tokens)
        if words[0] == "IMPORT" and ends:
            return tokens[end + 1].text if end + 1 < len(tokens) else ""
        return tokens[end - 1].text
    return ""


def parse_statement(
    raw: RawStatement, text: str, file: str, read: Tokens
) -> tuple[Statement | None, tuple[Diagnostic, ...]]:
    """Parse one statement; None if it could not be parsed. A statement with recoverable errors is returned with its
    diagnostics."""
    parser = StatementParser(raw, text, file, read)
    statement = None
    problems: list[Problem] = []
    try:
        _check_brackets(raw.tokens)
        statement = parser.statement()
        statement = replace(statement, hints=raw.hints) if raw.hints else statement
    except Problem as problem:
        problems.append(parser.miscount or problem)
    except RecursionError:
        problems.append(Problem("B1015", "this statement is nested too deeply", raw.start, raw.end))
    except (ParseError, ValueError, TypeError, AttributeError, IndexError, KeyError, AssertionError):
        # sqlglot assumes valid input in places: an exception there means that the statement is invalid
        at = parser.here()
        problems.append(Problem("B1001", f"cannot read this statement at {shown(at)}", at.start, at.end + 1))
    elsewhere = other_window([t.text for t in raw.tokens]) if problems else None
    for found in problems if elsewhere is not None else ():
        found.hint = elsewhere
    return statement, tuple(_diagnostic(p, file) for p in (*parser.findings, *problems))


def _diagnostic(problem: Problem, file: str) -> Diagnostic:
    span = Span(file, problem.start, problem.end)
    fix = Fix(span, problem.fix) if problem.fix is not None else None
    return Diagnostic(problem.code, problem.message, problem.severity, span, hint=problem.hint, fix=fix)


def _ordered(diagnostics: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    ordered = sorted(dict.fromkeys(diagnostics), key=lambda d: d.span.start if d.span else 0)
    first = {(d.code, d.message): d for d in reversed(ordered)}
    return tuple(d for d in ordered if d.code not in ONCE or d is first[d.code, d.message])


def _check_brackets(tokens: list[Token]) -> None:
    """Raise an error at a bracket without a partner, before any other error."""
    pairs = {TokenType.R_PAREN: TokenType.L_PAREN, TokenType.R_BRACKET: TokenType.L_BRACKET}
    opened: list[Token] = []
    for token in tokens:
        if token.token_type in pairs.values():
            opened.append(token)
        elif token.token_type in pairs:
            if not opened or opened[-1].token_type != pairs[token.token_type]:
                raise Problem("B1007", f"`{token.text}` closes nothing", token.start, token.end + 1, "remove it")
            opened.pop()
    if opened:
        last = opened[-1]
        closing = ")" if last.text == "(" else "]"
        raise Problem(
            "B1007", f"`{last.text}` is never closed", last.start, last.end + 1, f"write `{closing}` where it ends"
        )
