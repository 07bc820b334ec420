"""Scripts and queries of this repository: golden files, pages, examples, and those of other tests.

Out: names and texts; of a list of queries, what they read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from belvedere.connectors.project_file import load_project
from belvedere.scenarios.outline import read_outline
from tests.compatibility.forms import form_lists
from tests.compatibility.verdicts import Queries, Script
from tests.docs.test_pages import PAGES, blocks_of, write_file
from tests.lang_lower.spark_queries import QUERIES as SPARK_QUERIES
from tests.lang_lower.spark_queries import TABLES as SPARK_TABLES
from tests.random_sql.forms import FORMS as REWRITTEN
from tests.random_sql.queries import SCRIPT as RANDOM_SCRIPT
from tests.spark_grammar.chosen import CHOSEN
from tests.spark_grammar.queries import random_query
from tests.spark_grammar.samples import SCRIPT as GRAMMAR_SCRIPT
from tests.sqrl.random_scripts import random_script
from tests.window_by.test_keys import TABLE as NESTED_TABLE
from tests.window_by.test_nested import TEXTS as NESTED

ROOT = Path(__file__).parents[2]


def golden_scripts() -> Iterator[Script]:
    for path in sorted((ROOT / "tests" / "fixtures").glob("*/*.test")):
        cases = read_outline(path.read_text(encoding="utf-8"))
        yield from (Script(f"{path.parent.name}/{path.stem}", c.text) for c in cases if c.text)


def examples() -> Iterator[Script]:
    for path in sorted((ROOT / "examples").glob("*/*.sqrl")):
        yield Script(path.stem, path.read_text(encoding="utf-8"), load_project(path.parent))


def pages() -> Iterator[Script]:
    for path in PAGES:
        yield from _of_page(path)


def random_scripts() -> Iterator[Script]:
    for seed in range(3):
        yield Script("random", random_script(Random(seed)))


def _of_page(page: Path) -> Iterator[Script]:
    """The scripts of a page, each with what goes on with it."""
    with TemporaryDirectory() as folder:
        script = ""
        for block in blocks_of(page):
            write_file(block, Path(folder))
            if block.language != "sql":
                continue
            if "continued" not in block.words and script:
                yield Script(page.stem, script, load_project(Path(folder)))
                script = ""
            script += block.text
        if script:
            yield Script(page.stem, script, load_project(Path(folder)))


def query_lists() -> tuple[Queries, ...]:
    """Lists of queries that other tests run."""
    random = tuple(random_query(seed).text for seed in range(40))
    return (
        Queries("grammar_chosen", GRAMMAR_SCRIPT, CHOSEN),
        Queries("grammar_random", GRAMMAR_SCRIPT, random),
        Queries("spark", SPARK_TABLES, tuple(SPARK_QUERIES)),
        Queries("rewritten", RANDOM_SCRIPT, tuple(ours for ours, _ in REWRITTEN)),
        Queries("nested", NESTED_TABLE, tuple(NESTED.values())),
        *form_lists(),
    )
