"""The site of the pages: it builds without a warning, every page is found, no file of it comes from another host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the docs extra is not installed")
pytest.importorskip("material", reason="the docs extra is not installed")

ROOT = Path(__file__).parents[2]
MADE_BY_MARKDOWN = re.compile(r"<(script|style|code|pre)\b.*?</\1>", re.DOTALL)
FOREIGN = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//""")
NOT_READ = re.compile(r"<p>(?:[^<]|<(?!/p>))*\n(?:[*-] |\d+\. |\|)|\]\([\w./]+\)|```")
"""What shows Markdown that was not read: an item or a table within a paragraph, a link, a fence."""


def build(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target), *options],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def places() -> set[str]:
    """Return the paths in the site of the pages of docs/."""
    pages = (p.relative_to(ROOT / "docs") for p in (ROOT / "docs").glob("**/*.md"))
    return {str(p.with_name("index.html" if p.stem == "README" else f"{p.stem}.html")) for p in pages}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build(target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_every_page_is_found_by_the_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = places()
    codes = {f"codes/{p.stem}.html" for p in (ROOT / "belvedere" / "codes").glob("*.md")}
    assert pages | codes | {"index.html", "about/architecture.html", "examples/index.html"} <= found
    assert any("B2001" in entry["title"] for entry in index["docs"])
    assert (site / "search" / "search_index.js").exists(), "the search needs a server"


def test_every_page_has_its_place_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    pages = places()
    assert {page for page in pages if f'href="{page}" class="md-nav__link' not in start} == set()


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in site.glob("**/*.html")}
    assert [page.name for page, text in texts.items() if FOREIGN.search(text)] == []
    assert [
        p.name
        for p in site.glob("assets/stylesheets/*.css")
        if re.search(r"url\(['\"]?https?:", p.read_text(encoding="utf-8"))
    ] == []


def test_all_markdown_is_read(site: Path) -> None:
    texts = {p: MADE_BY_MARKDOWN.sub("", p.read_text(encoding="utf-8")) for p in site.glob("**/*.html")}
    assert {p.name: found[0][-80:] for p, text in texts.items() if (found := NOT_READ.search(text))} == {}
    assert "<code>|&gt;</code>" in (site / "reference" / "sql.html").read_text(encoding="utf-8"), (
        "GitHub wants a backslash before the pipe"
    )


def test_words_of_scripts_are_coloured(site: Path) -> None:
    text = (site / "tutorial.html").read_text(encoding="utf-8")
    assert '<span class="k">IMPORT</span>' in text


def test_files_that_are_linked_are_pages(site: Path) -> None:
    assert "files/deploy/alerts.yml.html" in (site / "reference" / "http.html").read_text(encoding="utf-8")
    assert "CREATE" in (site / "files" / "examples" / "iot" / "iot.sqrl.html").read_text(encoding="utf-8")
    assert '<span class="filename">shop.sqrl</span>' in (site / "index.html").read_text(encoding="utf-8")


def test_dead_links_end_the_build(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    dead = ["not-there.md", "api.md#not-there", "../../belvedere/not_there.md"]
    (tmp_path / "docs" / "reference" / "console.md").write_text(
        "".join(f"[there]({link})\n" for link in dead), encoding="utf-8"
    )
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    configuration = configuration.replace("docs_dir: docs", f"docs_dir: {tmp_path / 'docs'}")
    configuration = configuration.replace("tools/site/hooks.py", str(ROOT / "tools" / "site" / "hooks.py"))
    (tmp_path / "mkdocs.yml").write_text(configuration, encoding="utf-8")
    done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode != 0
    assert [link for link in dead if f"'{link}'" not in done.stderr] == [], done.stderr
