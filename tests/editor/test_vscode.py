"""The extension for Visual Studio Code: its files match, and its grammar has exactly the words of the language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlglot.tokenizer_core import TokenType

from belvedere.editor.completion import TYPES
from belvedere.syntax.dialect import Sqrl
from belvedere.syntax.fmt.spacing import KEYWORD_TYPES, KEYWORDS
from belvedere.syntax.parse import parse_script
from belvedere.syntax.spl.window_words import WORDS
from belvedere.syntax.splitting import read_tokens
from belvedere.syntax.statement_tree import defined_name
from tests.editor.textmate import colours

HERE = Path(__file__).parents[2]
EXTENSION = HERE / "editors" / "vscode"
GRAMMAR: dict[str, Any] = json.loads((EXTENSION / "syntaxes" / "sqrl.tmLanguage.json").read_text(encoding="utf-8"))
EXAMPLES = sorted((HERE / "examples").glob("*/*.sqrl"))
SHOWN = """/** A doc /* nested */ comment */
CREATE STREAM Bid (auction INT, `a b` STRING, first INT, WATERMARK FOR at AS at - INTERVAL 2 SECONDS);
High(least INT) := SELECT first, max(b.price) AS top, 'it''s \\' -- ', "x" FROM Bid b WHERE b.a > :least; -- said
Cold := FROM Ghcn AS g WINDOW BY w PARTITION BY g.type ORDER BY g.date TYPE SLIDING
  START AS s WHEN s.val < 25 END NEXT AS n WHEN n.val >= 25 SELECT s.type;
Last := SELECT sym FROM Trades WINDOW (sliding, count(20), delta(price, 5), partitioned BY sym) GROUP BY sym;
Of := SELECT sym FROM Trades AS T WINDOW T : timeInterval, intervalDuration(60.0) GROUP BY sym;
"""


def nodes(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inner)


def words_of(rule: dict[str, Any]) -> set[str]:
    """The words of an alternative such as `(A|B)`."""
    return set(re.findall(r"\(([A-Za-z_]+(?:\|[A-Za-z_]+)+)\)", rule["match"])[0].split("|"))


def test_files_that_are_named_are_there() -> None:
    package = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    made = package["contributes"]
    named = [package["main"], made["languages"][0]["configuration"], made["grammars"][0]["path"]]
    assert all((EXTENSION / path).is_file() for path in named)
    assert (
        json.loads((EXTENSION / "language-configuration.json").read_text(encoding="utf-8"))["comments"]["lineComment"]
        == "--"
    )
    assert made["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]
    settings = set(re.findall(r"get\(\"(\w+)\"\)", (EXTENSION / "extension.js").read_text(encoding="utf-8")))
    assert {f"belvedere.{name}" for name in settings} <= made["configuration"]["properties"].keys()


def test_patterns_can_be_read() -> None:
    for node in nodes(GRAMMAR):
        for key in ("match", "begin", "end"):
            if isinstance(node.get(key), str):
                pattern = re.compile(node[key])
                captures = (
                    node.get("captures", node.get(f"{key}Captures", {})) if key != "match" else node.get("captures", {})
                )
                assert all(int(group) <= pattern.groups for group in captures)
        if "include" in node:
            assert node["include"] == "$self" or node["include"][1:] in GRAMMAR["repository"]


def test_keywords_are_those_of_the_language() -> None:
    reserved, capitals = (words_of(rule) for rule in GRAMMAR["repository"]["keywords"]["patterns"])
    constants = words_of(GRAMMAR["repository"]["constants"])
    known = {
        w: kind for w, kind in Sqrl.Tokenizer.KEYWORDS.items() if kind in KEYWORD_TYPES and w.replace(" ", "").isalpha()
    }
    assert reserved | (constants - {"MISSING"}) == {part for w in known for part in w.split()}
    assert capitals == KEYWORDS
    assert {known[w] for w in constants - {"MISSING"}} == {TokenType.TRUE, TokenType.FALSE, TokenType.NULL}
    assert words_of(GRAMMAR["repository"]["types"]) == set(TYPES)
    assert words_of(GRAMMAR["repository"]["spl-words"]) >= set(WORDS.values())


def scope_of(text: str, part: str, nth: int = 0) -> str:
    """The innermost scope of a part of the text above."""
    at = [m.start() for m in re.finditer(re.escape(part), text)][nth]
    found = set(colours(GRAMMAR, text)[at : at + len(part)])
    assert len(found) == 1, (part, found)
    return next(iter(found))[-1] if found != {()} else ""


@pytest.mark.parametrize(
    ("part", "nth", "scope"),
    [
        (" comment ", 0, "comment.block.documentation"),
        ("CREATE", 0, "keyword"),
        ("Bid", 0, "entity.name"),
        ("Bid", 1, ""),
        ("INT", 0, "storage.type"),
        ("`a b`", 0, "variable.other.quoted"),
        ("first", 0, ""),
        ("SECONDS", 0, "keyword"),
        ("High", 0, "entity.name"),
        ("max", 0, "support.function"),
        (" -- ", 0, "string"),
        (":least", 0, "variable.parameter"),
        ("-- said", 0, "comment"),
        ("type", 0, ""),
        ("TYPE", 0, "keyword.other.window-by"),
        ("START", 0, "keyword.other.window-by"),
        ("type", 1, ""),
        ("sliding", 0, "keyword.other.spl"),
        ("partitioned", 0, "keyword.other.spl"),
        ("sym", 2, ""),
        ("intervalDuration", 0, "keyword.other.spl"),
    ],
)
def test_colours(part: str, nth: int, scope: str) -> None:
    found = scope_of(SHOWN, part, nth)
    assert found.startswith(scope) if scope else found.split(".")[0] in ("", "meta")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_coloured_as_they_are_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    seen, read = colours(GRAMMAR, text), read_tokens(text, str(path))
    for comment in (c for found in read.comments for c in found):
        assert all(
            s and s[0].startswith("comment") for s in seen[comment.start : comment.start + len(comment.text)] if s != ()
        ), comment
    for token in read.tokens:
        scopes = {s[-1] if s else "" for s in seen[token.start : token.end + 1]}
        kind = "string" if token.token_type == TokenType.STRING else None
        assert kind is None or all(s.startswith(("string", "constant.character")) for s in scopes), token
        assert kind is not None or not any(s.startswith(("string", "comment")) for s in scopes), token
    for statement in parse_script(text).statements:
        name = defined_name(statement)
        at = text.find(f"{name} :=", statement.span.start) if name is not None else -1
        assert at != statement.span.start or "entity.name.type.sqrl" in seen[at], name
