"""The prompt of `belvedere query --store URL`: queries and a few commands in sequence, over the relations of a store.

In: lines of a terminal, or of a file or pipe. Out: answers with their times; errors as diagnostics. The first query
that the database cannot answer starts Spark, which stays.
"""

from __future__ import annotations

import os
import pydoc
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from belvedere.editor.function_help import function_names
from belvedere.editor.known_relations import Known
from belvedere.errors import BelvedereError, fail
from belvedere.functions.spark_types import type_text
from belvedere.lang.endpoints.template_calls import form_of_call
from belvedere.queries.store_queries import QUERY_FILE, vocabulary_catalog
from belvedere.schema import find_named
from belvedere.syntax.wording import did_you_mean
from belvedere.terminal.answer_formats import FORMATS
from belvedere.terminal.completion import Words
from belvedere.terminal.output import quarantine_notice, show
from belvedere.terminal.statements import is_blank, piped
from belvedere.terminal.store_prompt import StoreTables, open_store_tables

if TYPE_CHECKING:
    from belvedere.spark.pyspark_types import SparkSession

HELP = """\
A query ends with `;`. The database answers it, or Spark if the database cannot.
With --script, `TemplateName(1, city => 'Ulm');` asks a query template.

  \\d                          the relations and query templates
  \\d NAME                     columns, key and relationships of one, or its parameters
  \\f [text]                   the functions with this text in their names
  \\format table | json | csv  the output format
  \\timing                     times on or off
  \\q, Ctrl-D                  quit; Ctrl-C cancels a line or a query
"""


def run_shell(url: str | None, script: Path | None, format_: str) -> int:
    """Run a prompt, or the statements of a pipe. For a pipe the exit code is 1 if a statement was refused."""
    with open_store_tables(url, script) as store:
        shell = Shell(store, _session, format_)
        try:
            if sys.stdin.isatty():
                from belvedere.terminal.prompt import prompt_session, typed  # only a terminal needs it

                sys.stdout.write("`help` lists the commands; a query ends with `;`\n")
                shell.run(typed(prompt_session(shell.words)))
                return 0
            shell.timing = False
            shell.run(piped(sys.stdin))
        finally:
            shell.close()
    return 1 if shell.failed else 0


def _session() -> SparkSession:
    from belvedere.spark.jvm.quiet_session import quiet_session  # loads PySpark, which takes a second

    return quiet_session({})


@dataclass
class Shell:
    """One session over an open store."""

    store: StoreTables
    start_spark: Callable[[], SparkSession]
    format: str = "table"
    timing: bool = True
    failed: bool = False
    """Whether a statement was refused."""
    _spark: SparkSession | None = field(default=None, init=False)
    _is_starting: bool = field(default=False, init=False)
    _is_given_up: bool = field(default=False, init=False)

    def words(self) -> Words:
        """Return the completions."""
        self.store.tables()  # raises if the store cannot be reached
        known = self.store.vocabulary()
        names = Known(vocabulary_catalog(known), QUERY_FILE)
        return Words(names, [t.path.text for t in known.templates.values() if t.path is not None])

    def run(self, statements: Iterable[str]) -> None:
        """Answer one statement after another."""
        for text in statements:
            try:
                if not is_blank(text) and not self.handle(text):
                    return
            except BelvedereError as error:
                self.failed = True
                show(error.diagnostics, {QUERY_FILE: text}, stream=sys.stderr)
            except KeyboardInterrupt:
                sys.stderr.write("cancelled\n")

    def handle(self, text: str) -> bool:
        """Run one statement. Return False if it ends the session."""
        word, *rest = text.strip().rstrip(";").split(None, 1)
        argument = rest[0].strip() if rest else ""
        if word.lower() in ("\\q", "quit", "exit"):
            return False
        if word.lower() in ("help", "\\?", "\\h") and not argument:
            sys.stdout.write(HELP)
        elif word == "\\d":
            print_paged(self._described(argument.strip("`")) if argument else self._listed())
        elif word == "\\f":
            names = [n for n in function_names() if argument.lower() in n]
            print_paged("\n".join([*names, f"({len(names)} functions)"]) + "\n")
        elif word == "\\timing":
            self.timing = not self.timing
            sys.stdout.write(f"times are {'shown' if self.timing else 'not shown'}\n")
        elif word == "\\format":
            self._set_format(argument)
        elif word.startswith("\\"):
            raise fail("B9127", f"there is no command `{word}`", hint="`help` lists them")
        else:
            self._answer(text)
        return True

    def _set_format(self, name: str) -> None:
        if name not in FORMATS:
            raise fail("B9127", f"`{name}` is not a format", hint=f"\\format {' | '.join(FORMATS)}")
        self.format = name

    def _answer(self, text: str) -> None:
        started = time.perf_counter()
        with self._giving_up():
            answer = self.store.answer(text, self._session)
        seconds = time.perf_counter() - started
        print_paged(FORMATS[self.format](answer.rows))
        sys.stderr.write(quarantine_notice(answer.quarantined))
        if self.timing:
            sys.stderr.write(f"{duration(seconds)}, by {'Spark' if answer.by_spark else 'the database'}\n")

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Stop Spark's jobs first on Ctrl-C: PySpark waits for them before it passes an interrupt on, and then reports
        their failure.

        While Spark starts, Ctrl-C waits: a half-started session could neither be used nor stopped.
        """
        self._is_given_up = False

        def cancel(*_: object) -> None:
            self._is_given_up = True
            if self._spark is not None:  # by a connection of its own: this thread's may be in use
                Thread(target=self._spark.sparkContext.cancelAllJobs, daemon=True).start()
            if not self._is_starting:
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, cancel)
        try:
            yield
        except Exception as error:
            if self._is_given_up:
                raise KeyboardInterrupt from error
            raise
        finally:
            signal.signal(signal.SIGINT, before)

    def _session(self, why: str) -> SparkSession:
        if self._spark is None:
            sys.stderr.write(f"starting Spark, which stays up: {why}\n")
            sys.stderr.flush()
            self._is_starting = True
            try:
                self._spark = self.start_spark()
            finally:
                self._is_starting = False
            if self._is_given_up:
                raise KeyboardInterrupt
        return self._spark

    def close(self) -> None:
        """Stop Spark if it was started."""
        if self._spark is not None:
            from belvedere.spark.jvm.quiet_session import end_spark  # loads PySpark, which takes a second

            end_spark(self._spark)

    def _listed(self) -> str:
        found = [(t.name, str(len(t.schema.visible))) for t in self.store.tables().values() if t.schema.visible]
        templates = [form_of_call(t) for t in self.store.vocabulary().templates.values()]
        text = side_by_side(("relation", "columns"), found) + "".join(f"query template {call}\n" for call in templates)
        return text + quarantine_notice(self.store.quarantined())

    def _described(self, name: str) -> str:
        known = self.store.vocabulary()
        template = known.templates.get(name.casefold())
        if template is not None:
            return f"query template {form_of_call(template)}\n"
        tables = self.store.tables()
        table = find_named(tables.values(), name)
        if table is None:
            raise fail("B2001", f"table `{name}` is not defined", hint=did_you_mean(name, [*tables, *known.templates]))
        rows = [
            (c.name, type_text(c.type) + ("" if c.nullable else " NOT NULL"), c.doc or "") for c in table.schema.visible
        ]
        text = side_by_side(("column", "type", ""), rows)
        key = table.schema.key or ()
        text += f"key: {', '.join(key)}\n" if key and not any(table.schema[n].hidden for n in key) else ""
        relation = known.definitions.find(table.name)
        for link in relation.relationships.values() if relation is not None else ():
            text += f"{table.name}.{link.name} -> {known.definitions.target_of(link).name}\n"
        return text + quarantine_notice({n: e for n, e in self.store.quarantined().items() if n == table.name})


def duration(seconds: float) -> str:
    """Return a duration for people."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def side_by_side(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Arrange texts in columns."""
    widths = [max([len(n), *(len(row[i]) for row in rows)]) for i, n in enumerate(names)]
    lines = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in (names, *rows)]
    return "\n".join(lines) + "\n"


def print_paged(text: str) -> None:
    """Print a text, page by page if the terminal is smaller."""
    size = shutil.get_terminal_size()
    lines = text.splitlines()
    if sys.stdout.isatty() and (len(lines) >= size.lines or any(len(line) > size.columns for line in lines)):
        os.environ.setdefault("LESS", "-SFRX")
        pydoc.pager(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
