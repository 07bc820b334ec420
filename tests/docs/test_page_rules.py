"""`python -m tools.pages` finds what breaks the rules of the pages, and the pages break none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages import ROOT, findings, pages, sentences, word_count

PAGE = """# A title

One thought. Another one with `code that is long and counts once`, and a [link](http://example.com/a/b)!

```sql
SELECT 'told';
```

* an item that
  goes on
* the second

| a cell | another cell. Its second sentence |
|---|---|
"""


def test_sentences_are_those_of_paragraphs_items_and_cells() -> None:
    found = [(s.text, s.words, s.line) for s in sentences(PAGE)]
    assert found == [
        ("A title", 2, 1),
        ("One thought.", 2, 3),
        ("Another one with CODE, and a link!", 7, 3),
        ("an item that goes on", 5, 9),
        ("the second", 2, 11),
        ("a cell", 2, 13),
        ("another cell.", 2, 13),
        ("Its second sentence", 3, 13),
    ]
    assert word_count("one `two three`\n```\nfour\n```\n") == 3


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("word " * 36, "docs/a.md", "a sentence of 36 words"),
        ("It is told.", "docs/a.md", "'told'"),
        ("`told` is code.", "docs/a.md", ""),
        ("It is told.", "docs/reference/sql.md", ""),
        ("a word\n" * 70, "docs/a.md", "a sentence of 140 words"),
        ("Two words. " * 12, "docs/a.md", "a line of 131 columns"),
        ("Two words.\n" * 1251, "docs/a.md", "2502 words; split the page at 2500"),
        ("Two words.\n" * 1251, "docs/reference/a.md", ""),
        ("Two words.\n" * 1001, "ARCHITECTURE.md", "2002 words; split the page at 2000"),
        ("Two words.\n" * 121, "README.md", "121 lines; the maximum is 120"),
    ],
)
def test_what_breaks_a_rule_is_found(tmp_path: Path, text: str, name: str, found: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text.rstrip(" "), encoding="utf-8")
    reported = list(findings(page, name))
    assert any(found in line for line in reported) if found else reported == []


def test_the_pages_break_no_rule() -> None:
    assert [line for page in pages() for line in findings(page, str(page.relative_to(ROOT)))] == []


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "docs" / "contents.md").read_text(encoding="utf-8")
    listed = [p for p in (ROOT / "docs").rglob("*.md") if p.stem != "contents" and p.parent.name != "design"]
    assert [str(p) for p in listed if f"({p.relative_to(ROOT / 'docs')})" not in contents] == []
