"""Hooks of mkdocs: add files of the repository outside docs/ to the site, and translate links and fences.

In: mkdocs.yml, docs/, and the files of `PAGES`. Out: pages for mkdocs. Links between pages are relative paths in the
repository, so pages can be read on GitHub too; here they become those of the site. A linked file that is no page (a
script, alert rules) becomes a page with its text. A link to a missing file is not changed, and
`mkdocs build --strict` rejects it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from made_pages import llms_text, with_examples, with_made_parts
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from sqrl_lexer import register

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "about/architecture.md",
    "CONTRIBUTING.md": "about/contributing.md",
    "CHANGELOG.md": "about/changes.md",
    **{str(p.relative_to(ROOT)): f"codes/{p.name}" for p in sorted((ROOT / "belvedere" / "codes").glob("*.md"))},
    **{(path := str(p.relative_to(ROOT))): path for p in sorted((ROOT / "examples").glob("**/README.md"))},
}
"""Pages outside docs/: their paths in the repository, and in the site."""

ASSETS = ("iframe-worker.js", "site.css")

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+)(.*)$", re.MULTILINE)
ROW, CODE = re.compile(r"^\|.*$", re.MULTILINE), re.compile(r"`[^`]+`")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")
register()
LANGUAGES = {".sqrl": "sql", ".yml": "yaml", ".py": "python"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the version below each page."""
    config.copyright = f"Belvedere {version('belvedere')} · {config.copyright}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and the files that pages link to."""
    for path, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text(encoding="utf-8")))
    pages = {source_of(file.src_uri): file.content_string for file in files.documentation_pages()}
    targets = {path for source, text in pages.items() for path in linked(text, source)}
    shown = {path for path in targets if path not in pages and is_text(path)}
    for path in sorted(shown):
        files.append(File.generated(config, shown_as(path), content=text_page(path)))
    for name in ASSETS:
        files.append(File.generated(config, f"assets/{name}", abs_src_path=str(Path(__file__).with_name(name))))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links to the site's pages, and with fences that the highlighter supports."""
    if page.file.src_uri.startswith(("codes/", "about/")):
        page.meta["search"] = {"boost": 0.1}  # descriptions come first in search results
    made = with_examples(markdown) if page.file.src_uri.startswith("codes/") else with_made_parts(markdown)
    return with_titles(relinked(made, source_of(page.file.src_uri)))


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt beside the pages, for programs that read them."""
    Path(config.site_dir, "llms.txt").write_text(llms_text(""), encoding="utf-8")


def source_of(place: str) -> str:
    """Return the path in the repository of a page of the site."""
    return next((path for path, other in PAGES.items() if other == place), f"docs/{place}")


def site_path(path: str) -> str:
    """Return the path in the site of a file of the repository, as a source of mkdocs."""
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else shown_as(path)


def shown_as(path: str) -> str:
    return f"files/{path}.md"


def target_of(link: str, source: str) -> str | None:
    """Return the file of the repository that a page's link leads to; None for other links and missing files."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return path if "://" not in link and not path.startswith("..") and (ROOT / path).is_file() else None


def linked(text: str, source: str) -> Iterator[str]:
    for link, _ in LINK.findall(FENCED.sub("", text)):
        target = target_of(link, source)
        if target is not None:
            yield target


def relinked(text: str, source: str) -> str:
    """Return a page's text with links of the site, and with pipes in tables in mkdocs' form. Fenced code is
    unchanged."""
    here = posixpath.dirname(site_path(source))

    def link(found: re.Match[str]) -> str:
        target = target_of(found[1], source)
        if target is None:
            return found[0]
        return f"]({posixpath.relpath(site_path(target), here or '.')}{found[2] or ''})"

    parts, at = [], 0
    for block in FENCED.finditer(text):
        parts += [with_pipes(LINK.sub(link, text[at : block.start()])), block[0]]
        at = block.end()
    return "".join([*parts, with_pipes(LINK.sub(link, text[at:]))])


def with_pipes(text: str) -> str:
    """Return code in tables without backslashes before pipes, which GitHub needs and mkdocs would show."""
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def with_titles(text: str) -> str:
    """Return fences without the words that only tests read; `file=NAME` becomes a title."""

    def fence(found: re.Match[str]) -> str:
        name = re.search(r"\bfile=(\S+)", found[2])
        return f"```{found[1]}" + (f' title="{name[1]}"' if name else "")

    return FENCE.sub(fence, text)


def is_text(path: str) -> bool:
    return os.path.splitext(path)[1] not in {".png", ".svg", ".jpg"}


def text_page(path: str) -> str:
    """Return a page with a file's text, excluded from the search."""
    suffix = os.path.splitext(path)[1]
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    language = LANGUAGES.get(suffix, suffix.lstrip(".") or "text")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{text}\n````\n"
