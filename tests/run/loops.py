"""A run of a script over a folder of files and over pushes, in this process, one epoch loop at a time."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belvedere.api.failures import RequestError
from belvedere.api.http.push_bodies import rows_of
from belvedere.catalog.catalog import Catalog, pushed_inputs
from belvedere.compiler import compile_script
from belvedere.connectors.new_columns import with_starting_columns
from belvedere.connectors.project_file import load_project
from belvedere.intake.ingest_service import IngestService, Request, open_ingest_service
from belvedere.intake.request_rows import find_input
from belvedere.project.settings import ProjectSettings


@dataclass(frozen=True)
class Compiled:
    """A script, and the project with the columns that its store knows."""

    catalog: Catalog
    project: ProjectSettings


class Loop:
    """The script `s.sqrl` of a folder, whose `belvedere.toml` names its sources; each `once` is a run of its own."""

    def __init__(self, spark: Any, folder: Path, script: str, project: str = "", url: str | None = None):
        """The store is a file of the folder where no `url` says otherwise."""
        self.spark, self.folder, self.script = spark, folder, script
        self.url = url or f"sqlite:///{folder / 's.db'}"
        (folder / "belvedere.toml").write_text(project)
        self.progress: list[Any] = []
        self.reported: list[str] = []

    def project(self, text: str) -> None:
        """Another text of `belvedere.toml`."""
        (self.folder / "belvedere.toml").write_text(text)

    def compiled(self) -> Compiled:
        """The script as a start has it."""
        project = with_starting_columns(load_project(self.folder), self.url)
        compiled = compile_script(self.script, path=self.folder / "s.sqrl", project=project)
        assert compiled.ok, compiled.diagnostics
        return Compiled(compiled.catalog, project)

    def once(self, *pushes: tuple[str, bytes], retry: bool = False) -> None:
        """Compile the script and run it until nothing is left; `pushes` are bodies in JSON, `retry` tries rejected rows
        again."""
        from belvedere.connectors.replay import past_of, rereadable_inputs
        from belvedere.connectors.run_records import RECORDS, REJECTED, files_of, files_read
        from belvedere.pipeline.choose import maintain
        from belvedere.spark.run.backfill import Backfill, fill_before
        from belvedere.spark.run.epoch_sources import open_sources
        from belvedere.spark.run.retried_rows import going, retry_rejected
        from belvedere.spark.run.run_loop import RunLoop, RunSettings
        from belvedere.spark.script_engine import open_engine
        from belvedere.store import open_store

        compiled = self.compiled()
        project, catalog = compiled.project, compiled.catalog
        store = open_store(self.url)
        store.acquire("test", 60)
        past = past_of(catalog, store, rereadable_inputs(catalog))
        engine = open_engine(
            self.spark, catalog, maintain(catalog), store, project.sinks, state=project.state, again=past.spans.keys()
        )
        ingest_service = None
        try:
            store.create(RECORDS)
            backfill = Backfill(self.spark, catalog, project, past, engine.tables.plan.again)
            assert fill_before(engine, backfill, lambda: False)
            if pushed_inputs(catalog):
                ingest_service = open_ingest_service(catalog, self.folder / "s.intake", store.last_epoch())
                for name, body in pushes:
                    self.push(ingest_service, name, body)
            reader = store.reader()
            known = files_read(reader)
            reader.close()

            def noted(id_: str) -> Any:
                with closing(store.reader()) as found:
                    return files_of(found, id_)

            sources = open_sources(
                catalog,
                project,
                store.last_epoch(),
                known,
                engine.tables.fresh,
                ingest_service,
                former=engine.rows_of,
                notes=store,
                noted=noted,
            )
            settings = RunSettings(once=True)
            loop = RunLoop(
                self.spark, engine, store, sources, settings, self.progress.append, notify=self.reported.append
            )
            if retry:
                reader = store.reader()
                found = retry_rejected(self.spark, catalog, project, reader, ingest_service)
                reader.close()
                sources.retried, loop.leaving = found.arrived, {REJECTED.name: going(found.gone)} if found.taken else {}
            loop.run()
        finally:
            if ingest_service is not None:
                ingest_service.close()
            engine.close()
            store.close()

    def push(self, ingest_service: IngestService, name: str, body: bytes) -> None:
        """Push as an API process does."""
        table = find_input(ingest_service.catalog, name)
        try:
            pushed = rows_of(table, body, "application/json", 100_000, {})
        except RequestError:
            return
        ingest_service.take([Request(table.id, pushed)])

    def counts(self, id_: str) -> tuple[int, int, int, int]:
        """Of an input: rows in, used, late, malformed."""
        from belvedere.store import open_reader
        from belvedere.time.event_time import Clocks

        reader = open_reader(self.url)
        last = reader.last_epoch()
        reader.close()
        assert last is not None
        found = Clocks.of_document(last.bounds).counts[id_]
        return found.given, found.used, found.late, found.malformed

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A stored table as it is."""
        from belvedere.store import open_store

        store = open_store(self.url)
        try:
            reader = store.reader()
            table = next(t for t in store.tables() if t.name == name)
            found: list[dict[str, Any]] = reader.rows(table).to_pylist()
            reader.close()
            return found
        finally:
            store.close()
