"""Splitting of a script's text into statements.

In: text. Out: `RawStatement`s (the tokens of one statement each, as written and in the parser's form) with their doc
comments, and errors in strings, comments and brackets. The module knows where statements begin, not what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.errors import Diagnostic, Fix, Span
from belvedere.syntax.dialect import Sqrl
from belvedere.syntax.forms.dashed_names import join_dashes
from belvedere.syntax.spl.window_parser import labelled
from belvedere.syntax.statement_tree import Hint
from belvedere.syntax.template_text import Expanded, expand

LEXEMES = re.compile(
    r"""--[^\n]*|/\*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|(?P<open>['"`])""",
    re.DOTALL,
)
HINT = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<arguments>[^()]*)\))?")
COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
BODY_COMES = {
    TokenType.ALIAS,
    TokenType.COLON_EQ,
    TokenType.UNION,
    TokenType.EXCEPT,
    TokenType.INTERSECT,
    TokenType.ALL,
    TokenType.DISTINCT,
    TokenType.L_PAREN,
    TokenType.COMMA,
}
CONTINUES = BODY_COMES | {
    TokenType.DOT,
    TokenType.SELECT,
    TokenType.FROM,
    TokenType.JOIN,
    TokenType.WHERE,
    TokenType.ON,
    TokenType.AND,
    TokenType.OR,
    TokenType.NOT,
    TokenType.EQ,
    TokenType.PLUS,
    TokenType.DASH,
    TokenType.ORDER_BY,
    TokenType.GROUP_BY,
}
CREATED = ("VIEW", "TABLE", "STREAM", "SUBSCRIPTION", "OR", "TEMPORARY", "TEMP", "MATERIALIZED", "FUNCTION")


@dataclass(frozen=True)
class RawStatement:
    """Tokens of one statement. `tokens` are for the parser (`@` and `this` are `_`); `streams` are offsets of SELECT
    STREAM."""

    tokens: list[Token]
    streams: frozenset[int]
    start: int
    end: int
    doc: str | None = None
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class Comment:
    """A comment as written, with its position."""

    text: str
    start: int
    end: int

    @property
    def is_doc(self) -> bool:
        """Return whether it is the doc comment of the next statement or part."""
        return self.text.startswith("/**") and len(self.text) > 4

    @property
    def line_comment(self) -> bool:
        """Return whether it extends to the end of its line."""
        return self.text.startswith("--")


@dataclass(frozen=True)
class Tokens:
    """All tokens of a file and the comments before each token. The list of comments has one more entry: those at the
    end."""

    tokens: list[Token]
    comments: list[list[Comment]]
    diagnostics: tuple[Diagnostic, ...] = ()
    expanded: Expanded = field(default_factory=lambda: Expanded(""))
    """The text with its variables replaced by their values, if it has any."""

    def doc_before(self, index: int) -> str | None:
        """Return the text of the doc comment directly before a token."""
        for comment in reversed(self.comments[index]):
            if comment.is_doc:
                return doc_text(comment.text)
        return None

    def hints_before(self, index: int) -> tuple[Hint, ...]:
        """Return the hints in `/*+ a, b(c) */` comments directly before a token."""
        said = [c for c in self.comments[index] if c.text.startswith("/*+")]
        return tuple(_hint(found, c.start) for c in said for found in HINT.finditer(c.text, 3))

    def stray_hints(self, begins: set[int]) -> tuple[Hint, ...]:
        """Return the hints that precede none of the tokens at these offsets."""
        starts = [*(t.start for t in self.tokens), None]
        return tuple(h for i, start in enumerate(starts) if start not in begins for h in self.hints_before(i))


def _hint(found: re.Match[str], offset: int) -> Hint:
    arguments = (a.strip().strip("`") for a in (found["arguments"] or "").split(","))
    return Hint(
        found["name"],
        tuple(a for a in arguments if a),
        offset + found.start(),
        offset + len(found.group().rstrip()) + found.start(),
    )


def doc_text(comment: str) -> str:
    """Return the text of a `/** ... */` comment, without its stars."""
    lines = [line.strip() for line in comment[3:-2].split("\n")]
    lines = [line[1:].strip() if line.startswith("*") else line for line in lines]
    return "\n".join(lines).strip()


def read_tokens(text: str, file: str, variables: Mapping[str, str] | None = None) -> Tokens:
    """Return tokens and comments of a file. An open string or comment is reported and read as blank to the end of its
    line.

    `{{name}}` is replaced by the value of the variable; positions refer to the text as written.
    """
    if "{{" not in text:
        return _read_tokens(text, file)
    expanded = expand(text, file, variables)
    read = _read_tokens(expanded.text, file)
    tokens = [_placed(t, expanded) for t in read.tokens]
    comments = [[_placed_comment(c, expanded) for c in found] for found in read.comments]
    diagnostics = [replace(d, span=_span(d.span, expanded), fix=None) for d in read.diagnostics]
    return Tokens(tokens, comments, (*expanded.diagnostics, *diagnostics), expanded)


def _placed(token: Token, expanded: Expanded) -> Token:
    start, end = expanded.start(token.start), expanded.end(token.end + 1) - 1
    return Token(token.token_type, token.text, token.line, token.col, start, max(start, end), token.comments)


def _placed_comment(comment: Comment, expanded: Expanded) -> Comment:
    return replace(comment, start=expanded.start(comment.start), end=expanded.end(comment.end))


def _span(span: Span | None, expanded: Expanded) -> Span | None:
    return None if span is None else Span(span.file, expanded.start(span.start), expanded.end(span.end))


@lru_cache(maxsize=8)
def _read_tokens(text: str, file: str) -> Tokens:
    diagnostics: list[Diagnostic] = []
    readable = text
    while (problem := find_unterminated(readable)) is not None:
        at, opened = problem
        end = _blank_until(readable, at, opened)
        diagnostics.append(_unterminated(file, at, end, opened))
        readable = _blanked(readable, at, end)
    while True:
        try:
            tokens = join_dashes(list(Sqrl().tokenize(readable)))
            return Tokens(tokens, _comments(readable, tokens), tuple(diagnostics))
        except TokenError:
            start, end = find_unreadable(readable)
            diagnostics.append(_unreadable(text[start:end], Span(file, start, end)))
            readable = _blanked(readable, start, end)


def _blanked(text: str, start: int, end: int) -> str:
    """Return the text with a range replaced by spaces, and the same lines."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def find_unterminated(text: str) -> tuple[int, str] | None:
    """Return the offset and the opening of the first unterminated string, quoted name or comment; None if there is
    none."""
    position = 0
    while found := LEXEMES.search(text, position):
        if found.group() == "/*":
            end = _comment_end(text, found.start())
            if end is None:
                return found.start(), "/*"
            position = end
        elif found.group("open"):
            return found.start(), found.group("open")
        else:
            position = found.end()
    return None


def find_unreadable(text: str) -> tuple[int, int]:
    """Return the range that cannot be tokenized in a text without unterminated strings and comments, such as `x'zz'` or
    a lone `{#`."""
    for found in LEXEMES.finditer(text):
        at = found.start() - 1
        prefixed = at >= 0 and text[at] in "xX" and not text[max(at - 1, 0) : at].isidentifier()
        if prefixed and not re.fullmatch(r"[0-9a-fA-F]*", found.group()[1:-1]):
            return at, found.end()
    opened = text.rfind("{#")
    return (opened, opened + 2) if opened >= 0 else (0, len(text))


def _unreadable(text: str, span: Span) -> Diagnostic:
    hint = "write hexadecimal digits: `x'1F'`" if text[:1] in "xX" else None
    return Diagnostic("B1006", f"`{text.splitlines()[0][:40]}` cannot be read", span=span, hint=hint)


def _comment_end(text: str, start: int) -> int | None:
    """Return the end of a comment, or None. Comments nest, as in Spark."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return start + mark.end()
    return None


def _blank_until(text: str, at: int, opened: str) -> int:
    if opened == "/*":
        return len(text)
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _unterminated(file: str, at: int, end: int, opened: str) -> Diagnostic:
    kind = {"/*": "comment", "`": "quoted name"}.get(opened, "string")
    closing = "*/" if opened == "/*" else opened
    return Diagnostic(
        "B1005" if kind == "comment" else "B1004",
        f"a {kind} is never closed",
        span=Span(file, at, at + len(opened)),
        hint=f"write {closing} at its end",
        fix=Fix(Span(file, end, end), closing),
    )


def _comments(text: str, tokens: list[Token]) -> list[list[Comment]]:
    found = []
    position = 0
    for token in [*tokens, None]:
        end = token.start if token else len(text)
        gap = text[position:end]
        found.append(_in_gap(gap, position) if "-" in gap or "/" in gap else [])
        position = token.end + 1 if token else end
    return found


def _in_gap(gap: str, offset: int) -> list[Comment]:
    comments = []
    position = 0
    while match := COMMENTS.search(gap, position):
        end = match.end() if match.group().startswith("--") else _comment_end(gap, match.start()) or len(gap)
        comments.append(Comment(gap[match.start() : end].rstrip(), offset + match.start(), offset + end))
        position = end
    return comments


def split(text: str, read: Tokens) -> list[RawStatement]:
    """Return the statements of a script, in order. A statement ends at `;` or where the next line begins a new one."""
    statements = []
    for begin, end in boundaries(text, read.tokens):
        tokens = read.tokens[begin:end]
        prepared, streams = prepare(tokens)
        doc, hints = read.doc_before(begin), read.hints_before(begin)
        statements.append(RawStatement(prepared, streams, tokens[0].start, tokens[-1].end + 1, doc, hints))
    return statements


def boundaries(text: str, tokens: list[Token]) -> list[tuple[int, int]]:
    """Return the index ranges of the statements' tokens, without semicolons."""
    ranges = []
    begin = 0
    depth = 0
    body = Body()
    for i, token in enumerate(tokens):
        kind = token.token_type
        if kind == TokenType.SEMICOLON and not labelled(tokens[i + 1 : i + 4]):
            ranges.append((begin, i))
            begin, depth, body = i + 1, 0, Body()
            continue
        fresh = i > begin and "\n" in text[tokens[i - 1].end + 1 : token.start]
        if fresh and begins_statement(tokens, i, depth, body):
            ranges.append((begin, i))
            begin, depth, body = i, 0, Body()
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth = max(0, depth - 1)
        elif depth == 0:
            body = body.after(kind)
    ranges.append((begin, len(tokens)))
    return [(a, b) for a, b in ranges if b > a]


@dataclass(frozen=True)
class Body:
    """The words of a statement read so far, outside brackets: a FROM before any SELECT, a WITH, a SELECT."""

    started: TokenType | None = None
    selected: bool = False

    def after(self, kind: TokenType) -> Body:
        """Return the state after a token of this kind."""
        if kind == TokenType.SELECT:
            return Body(self.started or kind, True)
        if kind in (TokenType.WITH, TokenType.FROM) and self.started is None:
            return Body(kind, False)
        return self


def begins_statement(tokens: list[Token], i: int, depth: int, body: Body) -> bool:
    """Return whether the token, first on its line, begins a new statement."""
    token = tokens[i]
    before = tokens[i - 1].token_type
    word = token.text.upper()
    following = tokens[i + 1] if i + 1 < len(tokens) else None
    if _defines(tokens, i):
        return True
    if following is None or token.token_type == TokenType.IDENTIFIER:
        return False
    same_line = following.line == token.line
    named = following.token_type in (TokenType.VAR, TokenType.IDENTIFIER) or _is_word(following)
    if token.token_type == TokenType.CREATE:
        return following.text.upper() in CREATED or (same_line and named and before not in CONTINUES)
    if word in ("IMPORT", "EXPORT") and same_line and named and following.token_type != TokenType.ALIAS:
        dotted = i + 2 < len(tokens) and tokens[i + 2].token_type == TokenType.DOT
        return before not in CONTINUES or (dotted and word == "IMPORT" and before == TokenType.COLON_EQ)
    if depth or before in BODY_COMES or tokens[i - 1].text.upper() == "SUBSCRIBE":
        return False
    if token.token_type == TokenType.SELECT:
        return body.started is None or body.selected
    if token.token_type == TokenType.FROM:
        return body.started == TokenType.FROM and body.selected
    if token.token_type == TokenType.WITH:
        return (body.started is None or body.selected) and _is_cte(tokens, i)
    return False


def _defines(tokens: list[Token], i: int) -> bool:
    """Return whether `a.b :=` or `name(...) :=` begins here."""
    size = len(tokens)
    j = i
    while j < size and (tokens[j].token_type in (TokenType.VAR, TokenType.IDENTIFIER) or _is_word(tokens[j])):
        j += 1
        if j == size or tokens[j].token_type != TokenType.DOT:
            break
        j += 1
    if j == i or j >= size:
        return False
    if tokens[j].token_type == TokenType.L_PAREN:
        depth = 0
        while j < size and tokens[j].token_type != TokenType.SEMICOLON:
            depth += (tokens[j].token_type == TokenType.L_PAREN) - (tokens[j].token_type == TokenType.R_PAREN)
            j += 1
            if depth == 0:
                break
    return j < size and tokens[j].token_type == TokenType.COLON_EQ


def _is_word(token: Token) -> bool:
    return token.token_type != TokenType.STRING and token.text.isidentifier()


def _is_cte(tokens: list[Token], i: int) -> bool:
    rest = tokens[i + 1 : i + 4]
    if rest and rest[0].text.upper() == "RECURSIVE":
        return True
    return len(rest) > 1 and rest[1].token_type in (TokenType.ALIAS, TokenType.L_PAREN)


def prepare(tokens: list[Token]) -> tuple[list[Token], frozenset[int]]:
    """Return the tokens in the parser's form: `@` and `this` as `_`, `@name` as `:name`, SELECT STREAM as SELECT."""
    result: list[Token] = []
    streams = set()
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else None
        before = tokens[i - 1] if i else None
        if token.token_type == TokenType.PARAMETER:
            result.append(_at_sign(token, following))
        elif _is_this(token, before, following):
            result.append(_renamed(token, TokenType.VAR, "_"))
        elif before is not None and before.token_type == TokenType.SELECT and _is_stream(token, following):
            streams.add(before.start)
        else:
            result.append(token)
    return result, frozenset(streams)


def _renamed(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)


def _at_sign(token: Token, following: Token | None) -> Token:
    if following is not None and following.start == token.end + 1 and following.text.isidentifier():
        return _renamed(token, TokenType.COLON, ":")
    return _renamed(token, TokenType.VAR, "_")


def _is_this(token: Token, before: Token | None, following: Token | None) -> bool:
    if token.token_type != TokenType.VAR or token.text.lower() != "this":
        return False
    if before is not None and before.token_type == TokenType.DOT:
        return False
    return following is not None and following.token_type == TokenType.DOT


def _is_stream(token: Token, following: Token | None) -> bool:
    """Return whether STREAM after SELECT is the keyword, not a column of that name."""
    if token.text.upper() != "STREAM" or token.token_type == TokenType.IDENTIFIER or following is None:
        return False
    if following.token_type == TokenType.L_PAREN:
        return following.start > token.end + 1
    words = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STAR, TokenType.NUMBER, TokenType.STRING, TokenType.CASE)
    return following.token_type in words or (
        following.text.isidentifier() and following.token_type not in (TokenType.FROM, TokenType.ALIAS, TokenType.WHERE)
    )
