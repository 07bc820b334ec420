"""Check the pages of the documentation against the rules of plain English.

In: README.md, ARCHITECTURE.md, CONTRIBUTING.md, docs/, texts of codes, examples. Out: a line for each finding, and with
`--figures` a table of words and long sentences for each page. Fenced code is ignored, and inline code counts as one
word. `tools/prose.py` has the banned words; it checks the code, and sentences without tables.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.prose import patterns

ROOT = Path(__file__).parents[1]
AIM, MAXIMUM = 25, 35
"""Words of a sentence: the recommended maximum, and the maximum that the check accepts."""
COLUMNS = 120
"""Maximum length of a line outside of tables and code."""
PAGE_WORDS = 2_500
"""Maximum number of words of a page that is not a reference."""
ALLOWED_WORDS = {
    "ARCHITECTURE.md": "the last table of the glossary lists words that name nothing",
    "docs/reference/sql.md": "its words are those of the compiler's tables, which tools/prose.py checks",
}
"""Pages that may contain these words, with the reason."""
LIMITS = {"ARCHITECTURE.md": 2_000, "CONTRIBUTING.md": 4_000}
"""Maximum numbers of words of other pages. CONTRIBUTING.md is a reference for contributors."""
README_LINES = 120
FENCED = re.compile(r"^( *)(```+).*?^\1\2`*$", re.MULTILINE | re.DOTALL)
BLOCK_START = re.compile(r"\s*(?:[*-]|\d+\.)\s+|\s*#+ |\s*\||\s*> ?|\s*!!!")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a page, without markup, and the line on which its paragraph begins."""

    text: str
    line: int

    @property
    def words(self) -> int:
        return len(re.findall(r"[^\s—–-][^\s]*", self.text))


def pages() -> list[Path]:
    """Return the pages that the rules apply to."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    globs = ("docs/**/*.md", "belvedere/codes/*.md", "examples/**/README.md")
    return [*top, *(path for pattern in globs for path in sorted(ROOT.glob(pattern)))]


def prose(text: str) -> str:
    """Return the page with empty lines in place of code and comments."""
    return re.sub(r"<!--.*?-->", _blank, FENCED.sub(_blank, text), flags=re.DOTALL)


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph, list item, heading and table cell with the number of its first line."""
    started, lines = 0, list[str]()
    for number, line in enumerate(prose(text).split("\n"), start=1):
        if lines and (not line.strip() or BLOCK_START.match(line)):
            yield started, " ".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", line) if cell.strip(" -:"))
        elif line.startswith("    ") and not lines and not BLOCK_START.match(line):
            continue  # indented code
        elif line.strip():
            started = started if lines else number
            lines.append(line.strip())
    if lines:
        yield started, " ".join(lines)


def sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a page."""
    for line, block in blocks(text):
        plain = re.sub(r"^(?:[*-]|\d+\.|#+|>)\s+", "", block.strip())
        plain = re.sub(r"``.+?``|`[^`]*`", "CODE", plain)
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain).replace("**", "").replace("*", "")
        plain = re.sub(r"\b(e\.g|i\.e|vs|etc|No)\.", r"\1", plain)
        for part in re.split(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z0-9])", plain):
            if part.replace("CODE", "").strip(" ,.;:"):  # a list of names is not a sentence
                yield Sentence(part.strip(), line)


def word_count(text: str) -> int:
    """Return the number of words of a page, without fenced code."""
    return len(prose(text).split())


def findings(path: Path, name: str) -> Iterator[str]:
    """Yield violations of the rules on one page; `name` is its path in the repository."""
    text = path.read_text(encoding="utf-8")
    for sentence in sentences(text):
        if sentence.words > MAXIMUM:
            yield f"{name}:{sentence.line}: a sentence of {sentence.words} words: {sentence.text[:60]}..."
    for number, line in enumerate(prose(text).split("\n"), start=1):
        bare = re.sub(r"`[^`]*`", "", line)
        if name not in ALLOWED_WORDS:
            found = (match[0] for pattern in patterns("words").values() for match in pattern.finditer(bare))
            yield from (f"{name}:{number}: {word!r}" for word in found)
        if (
            len(line) > COLUMNS
            and not line.startswith("    ")
            and not line.lstrip().startswith(("|", "!["))
            and " " in line[:COLUMNS].strip()
        ):
            yield f"{name}:{number}: a line of {len(line)} columns"
    maximum = LIMITS.get(name, PAGE_WORDS)
    if not name.startswith(REFERENCE_FOLDERS) and word_count(text) > maximum:
        yield f"{name}: {word_count(text)} words; split the page at {maximum}"
    if name == "README.md" and text.count("\n") > README_LINES:
        yield f"{name}: {text.count(chr(10))} lines; the maximum is {README_LINES}"


REFERENCE_FOLDERS = ("docs/reference/", "belvedere/codes/")
"""Pages of reference, which may have any length."""


def figures() -> Iterator[str]:
    """Yield a table of words and long sentences by page, and their sums."""
    yield f"{'page':44} {'words':>6} {'> 25':>5} {'> 35':>5}"
    sums = [0, 0, 0]
    for path in pages():
        text = path.read_text(encoding="utf-8")
        lengths = [s.words for s in sentences(text)]
        row = [word_count(text), sum(n > AIM for n in lengths), sum(n > MAXIMUM for n in lengths)]
        sums = [a + b for a, b in zip(sums, row, strict=True)]
        yield f"{path.relative_to(ROOT)!s:44} {row[0]:6} {row[1]:5} {row[2]:5}"
    yield f"{'all':44} {sums[0]:6} {sums[1]:5} {sums[2]:5}"


def main() -> int:
    """Print findings, or figures with `--figures`. Return 1 if there are findings."""
    if "--figures" in sys.argv[1:]:
        sys.stdout.write("\n".join(figures()) + "\n")
        return 0
    found = [line for path in pages() for line in findings(path, str(path.relative_to(ROOT)))]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
