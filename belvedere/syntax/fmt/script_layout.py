"""Layout of a script.

In: a script's text without syntax errors. Out: text with the same tokens and comments in the same order (except that
WHERE moves before GROUP BY), keywords in capitals, a semicolon after each statement. Formatting is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.syntax.fmt.spacing import CALLED, KEYWORD_TYPES, KEYWORDS
from belvedere.syntax.fmt.statement_layout import lay_out
from belvedere.syntax.fmt.words import Brackets, LayoutItem, Mark, Word
from belvedere.syntax.parse import parse_script
from belvedere.syntax.query_tree import WindowByBlock
from belvedere.syntax.splitting import Comment, Tokens, boundaries, read_tokens
from belvedere.syntax.statement_tree import Part, Script


def format_script(text: str) -> str:
    """Format a script. Return the text unchanged if it cannot be parsed, or if formatting would change its words or
    comments."""
    seen = [text]
    while (following := _format_once(seen[-1])) not in seen:
        seen.append(following)
    # comments at unusual places may need a second pass; if two layouts alternate, the choice between them is fixed
    result = min(seen[seen.index(following) :])
    return result if _words(result) == _words(text) else text


def _words(text: str) -> list[str]:
    """Return all words and comments of a text, sorted, since WHERE may move."""
    read = read_tokens(text, "")
    comments = [" ".join(c.text.split()) for found in read.comments for c in found]
    return sorted([t.text.upper() for t in read.tokens if t.token_type != TokenType.SEMICOLON] + comments)


def _format_once(text: str) -> str:
    script = parse_script(text)
    if not script.ok or _has_templates(text):
        return text
    read = read_tokens(text, script.file)
    context = _Context(text, read, _names(script), _ranges(script, exp.DataType), _ranges(script, WindowByBlock))
    return _join(list(_blocks(context)))


def _has_templates(text: str) -> bool:
    """Return whether there are variables outside the paths of IMPORT: only the author knows the spaces around their
    values."""
    return any(line.strip()[:6].upper() != "IMPORT" for line in text.split("\n") if "{{" in line)


@dataclass(frozen=True)
class _Context:
    """Context for layout from the parsed script: the positions of names and types, and the parts to leave unchanged."""

    text: str
    read: Tokens
    names: frozenset[int]
    types: tuple[tuple[int, int], ...]
    verbatim: tuple[tuple[int, int], ...]


def _values(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, tuple | list):
        for item in value:
            yield from _values(item)
    elif isinstance(value, exp.Expr):
        yield from value.walk()
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _values(getattr(value, name))


def _names(script: Script) -> frozenset[int]:
    """Return the offsets of tokens that are names, which keep their case."""
    found = set()
    for value in _values(script.statements):
        if isinstance(value, Part):
            found.add(value.span.start)
        elif isinstance(value, exp.Identifier | exp.Anonymous) and "start" in value.meta:
            found.add(value.meta["start"])
    return frozenset(found)


def _ranges(script: Script, kind: type[exp.Expr]) -> tuple[tuple[int, int], ...]:
    found = {
        (v.meta["start"], v.meta["end"])
        for v in _values(script.statements)
        if isinstance(v, kind) and "start" in v.meta
    }
    return tuple(sorted(found))


@dataclass(frozen=True)
class _Block:
    """A statement or a separate comment: its lines, and whether a blank line preceded it."""

    text: str
    apart: bool
    statement: bool = False
    trails: bool = False


def _join(blocks: list[_Block]) -> str:
    out = ""
    previous: _Block | None = None
    statement: _Block | None = None
    for block in blocks:
        if block.trails and previous is not None and not _ends_in_line_comment(previous):
            out = out.rstrip("\n") + "  " + block.text + "\n"
        else:
            after = previous is not None and (previous.statement or previous.trails)
            long = block.statement and after and statement is not None and "\n" in block.text + statement.text
            out += "\n" if previous is not None and (block.apart or long) else ""
            out += block.text + "\n"
        previous = block
        statement = block if block.statement else statement
    return out


def _ends_in_line_comment(block: _Block) -> bool:
    return not block.statement and block.text.rsplit("\n", 1)[-1].lstrip().startswith("--")


def _blocks(context: _Context) -> Iterator[_Block]:
    """Yield statements and the comments between them, in order."""
    tokens = context.read.tokens
    position = 0
    for begin, end in boundaries(context.text, tokens):
        for index in range(position, begin + 1):
            yield from _comments_between(context, index)
        items, _ = _items(context, begin, end)
        yield _Block(lay_out(items) + ";", _blank_before(context.text, tokens[begin].start), statement=True)
        position = end
    for index in range(position, len(tokens) + 1):
        yield from _comments_between(context, index)


def _comments_between(context: _Context, index: int) -> Iterator[_Block]:
    for comment in context.read.comments[index]:
        trails = index > 0 and not _own_line(context.text, comment.start)
        yield _Block(_tidy(comment.text), _blank_before(context.text, comment.start), trails=trails)


def _tidy(comment: str) -> str:
    return "\n".join(line.rstrip() for line in comment.split("\n"))


def _own_line(text: str, offset: int) -> bool:
    return not text[text.rfind("\n", 0, offset) + 1 : offset].strip()


def _blank_before(text: str, offset: int) -> bool:
    start = offset
    while start > 0 and text[start - 1].isspace():
        start -= 1
    return start > 0 and text.count("\n", start, offset) > 1


def _items(context: _Context, begin: int, end: int, closing: TokenType | None = None) -> tuple[list[LayoutItem], int]:
    """Return tokens and comments from `begin` on, with nested brackets, and the index after the last one read."""
    tokens = context.read.tokens
    items: list[LayoutItem] = []
    index = begin
    first = begin
    while index < end:
        token = tokens[index]
        if (
            index > first and token.start == tokens[index - 1].start
        ):  # `5L` is parsed as a cast: three tokens at one position
            index += 1
            continue
        if index > first or closing is not None:
            items += [_mark(context, c, token) for c in context.read.comments[index]]
        if closing is not None and token.token_type == closing:
            return items, index
        block = next((r for r in context.verbatim if r[0] == token.start), None)
        if block is not None:
            items.append(Word(_tidy(context.text[block[0] : block[1]]), TokenType.VAR))
            while index < end and tokens[index].end < block[1]:
                index += 1
            continue
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            close = TokenType.R_PAREN if token.token_type == TokenType.L_PAREN else TokenType.R_BRACKET
            inner, after = _items(context, index + 1, end, close)
            items.append(Brackets(_word(context, token), tuple(inner), _word(context, tokens[min(after, end - 1)])))
            index = after + 1
            continue
        items.append(_word(context, token))
        index += 1
    return items, index


def _mark(context: _Context, comment: Comment, following: Token) -> Mark:
    own = _own_line(context.text, comment.start)
    ends_line = "\n" in context.text[comment.end : following.start]
    if comment.line_comment or "\n" in comment.text:
        return Mark(_tidy(comment.text), own=own, breaks=True)
    return Mark(_tidy(comment.text), own=own and ends_line, breaks=own and ends_line)


def _word(context: _Context, token: Token) -> Word:
    text = context.text[token.start : token.end + 1]
    called = context.text[token.end + 1 : token.end + 2] == "(" and text.upper() in CALLED
    after = context.text[token.end + 1 : token.end + 9].lstrip()
    named = after[:2] == "=>" or (token.token_type == TokenType.WINDOW and after[:1] == "=")
    keyword = token.start not in context.names and (token.token_type in KEYWORD_TYPES or text.upper() in KEYWORDS)
    keyword = keyword and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    keyword = keyword and not called and not named
    typed = any(a <= token.start < b for a, b in context.types)
    adjacent = token.start > 0 and not context.text[token.start - 1].isspace()
    if keyword and not typed:
        text = " ".join(text.upper().split()).replace("PARTITIONED", "partitioned")  # SPL's word, like `sliding`
    return Word(text, token.token_type, keyword=keyword, adjacent=adjacent, typed=typed)
