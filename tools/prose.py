"""Check the measurable rules of the project's style: first words, banned words, internal names in messages, lengths.

It reads the Python files of `FOLDERS`, the pages of `PAGES`, and `prose.toml`: words, exceptions with reasons, and the
allowed number of findings per rule. It prints the findings above that number. `--list RULE` prints all findings of a
rule, `--shrink` lowers the allowed numbers to the present ones. It does not judge meaning.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = Path(__file__).with_suffix(".toml")
FOLDERS = ("belvedere", "tools", "bench", "examples")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/**/*.md", "belvedere/codes/*.md")
WIDTH = 120
"""Maximum number of columns of a line of Python."""
SENTENCE = 35
"""Maximum number of words of a sentence in a page."""
FIRST_WORDS = ("So", "Of", "Those", "What", "Who", "Whose", "Whom")
"""Words that begin a clause: a docstring begins with a verb or with the noun of the thing."""
PROSE = re.compile(r"(?:^|[^\w])(?:[a-z]+[,:;]? ){2,}[a-z]+")
"""Three lower-case words in a row: a text for users, not a name or a query."""
PRAGMA = re.compile(r"  # (?:type: ignore|noqa)\b.*$")
"""A comment for a tool at the end of a line, which does not count for its width."""
CODE = re.compile(r"^```[\s\S]*?^```$|^ {4}.*$|^\|.*$|^#.*$|<[^>]+>", re.MULTILINE)
"""Parts of a page that are not sentences: code, tables, headings, HTML."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of prose: its position, its kind (`docstring`, `comment`, `message` or `page`), and its text."""

    file: str
    line: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A text that breaks a rule."""

    file: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


def python_texts(file: str, source: str) -> Iterator[Text]:
    """Return the docstrings, messages and comments of a Python file."""
    tree = ast.parse(source)
    docstrings = set[int]()
    messages: list[ast.Constant] = []
    for node in ast.walk(tree):
        match node:
            case ast.Expr(ast.Constant(str() as text) as constant):
                docstrings.add(id(constant))
                yield Text(file, constant.lineno, "docstring", text)
            case ast.Constant(str() as text) if PROSE.search(text):
                messages.append(node)
    yield from (Text(file, m.lineno, "message", str(m.value)) for m in messages if id(m) not in docstrings)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(file, token.start[0], "comment", token.string)


def page_texts(file: str, source: str) -> Iterator[Text]:
    """Return the sentences of a page of Markdown, without code, tables and headings."""
    prose = CODE.sub(lambda found: "\n" * found[0].count("\n"), source)
    for block in re.finditer(r"(?:^(?!\s*$).*\n?)+", prose, re.M):
        line = prose.count("\n", 0, block.start()) + 1
        for item in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block[0]):
            for sentence in re.split(r"(?<=[.!?])\s+", item):
                yield Text(file, line, "page", " ".join(sentence.split()))


def long_lines(file: str, source: str) -> Iterator[Finding]:
    """Return the lines of a Python file that are wider than `WIDTH`."""
    for number, line in enumerate(source.splitlines(), 1):
        if len(PRAGMA.sub("", line)) > WIDTH:
            yield Finding(file, number, "line", line.strip()[:60])


def judge(text: Text) -> Iterator[Finding]:
    """Return the violations of one text."""

    def finding(rule: str, found: str) -> Finding:
        return Finding(text.file, text.line, rule, found)

    if text.kind == "docstring" and (first := re.match(r"\W*(\w+)", text.text)) and first[1] in FIRST_WORDS:
        yield finding(f"first-{first[1].lower()}", text.text.split("\n")[0])
    if text.kind == "page" and len(text.text.split()) > SENTENCE:
        yield finding("sentence", text.text)
    kind = "page" if text.kind == "page" else "word"
    for rule, pattern in patterns("words").items():
        yield from (finding(f"{kind}-{rule}", excerpt(text.text, m)) for m in pattern.finditer(text.text))
    if text.kind == "message":
        for rule, pattern in patterns("inner").items():
            yield from (finding(f"inner-{rule}", excerpt(text.text, m)) for m in pattern.finditer(text.text))


def excerpt(text: str, found: re.Match[str]) -> str:
    """Return the context of a match, on one line."""
    return " ".join(text[max(0, found.start() - 50) : found.end() + 50].split())


@cache
def settings() -> dict[str, dict[str, str]]:
    """Return the tables of `prose.toml`."""
    return tomllib.loads(SETTINGS.read_text(encoding="utf-8"))


@cache
def patterns(table: str) -> dict[str, re.Pattern[str]]:
    """Return the compiled expressions of a table of `prose.toml` by rule."""
    return {rule: re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) for rule, words in settings()[table].items()}


@cache
def suspicious() -> re.Pattern[str]:
    """Return an expression that matches each file that may break a rule; other files need no parsing."""
    words = "|".join([*settings()["words"].values(), *settings()["inner"].values()])
    return re.compile(rf"(?<!\w)(?i:{words})(?!\w)|\"\"\"\W*(?:{'|'.join(FIRST_WORDS)})(?!\w)")


def findings() -> list[Finding]:
    """Return all findings in the project, less those with an exception."""
    found: list[Finding] = []
    for path in sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py")):
        file, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        found += long_lines(file, source)
        if suspicious().search(source):
            found += (finding for text in python_texts(file, source) for finding in judge(text))
    for path in sorted({p for pattern in PAGES for p in ROOT.glob(pattern)}):
        file = str(path.relative_to(ROOT))
        found += (finding for text in page_texts(file, path.read_text(encoding="utf-8")) for finding in judge(text))
    return [f for f in found if not excused(f)]


def excused(finding: Finding) -> bool:
    """Return whether the file of the finding, or a folder above it, is an exception to its rule."""
    places = (Path(finding.file), *Path(finding.file).parents)
    return any(f"{place}: {finding.rule}" in settings()["exceptions"] for place in places)


def main() -> int:
    """Print the findings above the budget. Return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--list", metavar="RULE", action="append", default=[], help="print the findings of rules that begin so"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="write the present numbers into the budget where they are smaller"
    )
    arguments = parser.parse_args()
    found = findings()
    counts, budget = Counter(f.rule for f in found), {rule: int(n) for rule, n in settings()["budget"].items()}
    grown = {rule for rule, n in counts.items() if n > budget.get(rule, 0)}
    wanted = tuple(arguments.list) or tuple(grown)
    print(*(f for f in found if f.rule.startswith(wanted)) if wanted else (), sep="\n", end="\n" if wanted else "")
    for rule in sorted({*counts, *budget}):
        print(f"{rule:16} {counts[rule]:5} of {budget.get(rule, 0)}", "too many" if rule in grown else "")
    if arguments.shrink:
        lines = SETTINGS.read_text(encoding="utf-8").partition("[budget]\n")[0] + "[budget]\n"
        kept = {rule: min(counts[rule], budget.get(rule, counts[rule])) for rule in sorted({*counts, *budget})}
        SETTINGS.write_text(lines + "".join(f"{rule} = {n}\n" for rule, n in kept.items() if n), encoding="utf-8")
    return 1 if grown and not arguments.shrink else 0


if __name__ == "__main__":
    sys.exit(main())
