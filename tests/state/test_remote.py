"""State in an object store: an S3 server of its own, whose requests fail; copies that are gone or damaged; crashes
around every write."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from pyspark import cloudpickle
from werkzeug.serving import make_server

from belvedere import Workbench
from belvedere.commands.query import state_rows
from belvedere.connectors.project_file import load_project
from belvedere.engine.by_tasks.task_answers import read_answers
from belvedere.engine.by_tasks.tasks import AppendTask
from belvedere.errors import BelvedereError
from belvedere.state.remote_files import Remote
from belvedere.state.state import State
from tests.state.test_files import ARRANGED, filled, rows

BUCKET = "views"


@dataclass
class S3:
    """The server; `fails` says of a request (method, path) whether it fails `before` or `after` it is done."""

    port: int = 0
    fails: Callable[[str, str], str | None] = lambda method, path: None
    puts: list[str] = field(default_factory=list)
    client: Any = None

    def address(self, folder: str, bucket: str = BUCKET) -> str:
        return f"s3a://{bucket}/{folder}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def names(self, folder: str) -> list[str]:
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder}/").get("Contents", [])
        return [o["Key"] for o in found if not o["Key"].endswith("/")]


def failing(app: Any, s3: S3) -> Any:
    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if method in {"PUT", "POST"}:
            s3.puts.append(path)
        at = s3.fails(method, path)
        if at == "after":
            list(app(environ, lambda status, headers, *rest: lambda data: None))
        if at is not None:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) if at == "before" else None
            start("403 Forbidden", [("Content-Type", "text/plain"), ("Content-Length", "0")])
            return [b""]
        return app(environ, start)

    return answer


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "tests")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "tests")
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        s3 = S3()
        found = make_server("127.0.0.1", 0, failing(DomainDispatcherApplication(create_backend_app), s3), threaded=True)
        s3.port = found.server_port
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        s3.client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{s3.port}", region_name="us-east-1")
        s3.client.create_bucket(Bucket=BUCKET)
        yield s3
        found.shutdown()
        thread.join()


@pytest.fixture
def s3(server: S3) -> Iterator[S3]:
    server.puts.clear()
    yield server
    server.fails = lambda method, path: None


def numbers(state: State) -> list[int]:
    return sorted(n for b in state.arrangements["R"].look_up(None, None) for n in b.column(0).to_pylist())


def test_copies_that_are_gone_or_damaged_are_fetched_again(s3: S3, tmp_path: Path) -> None:
    remote = Remote(s3.address("plain"), "one")
    at = filled(tmp_path / "copies", remote=remote)
    assert {Path(n).name for n in s3.names("plain")} == {p.name for p in (tmp_path / "copies").iterdir()}
    state = State(tmp_path / "elsewhere", at, remote=remote)
    state.arrange([ARRANGED], frozenset({"R"}))
    known = numbers(state)
    assert len(known) > 290
    state.close()
    assert not list((tmp_path / "elsewhere").iterdir()), "blocks have no names"
    for damage in (lambda c: c[:-9] + b"x" + c[-8:], lambda c: c[:100], lambda c: b""):
        for path in (tmp_path / "copies").iterdir():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(damage(content))
        state = State(tmp_path / "copies", at, remote=remote)
        state.arrange([ARRANGED], frozenset({"R"}))
        assert numbers(state) == known
        state.close()


def test_copies_take_no_more_than_they_may(s3: S3, tmp_path: Path) -> None:
    """What is let go is fetched again; a run that is not looked up is not copied at all."""
    remote = Remote(s3.address("bounded"), "one")
    at = None
    expected: list[int] = []
    for epoch in range(2):  # so few runs are not merged
        folder = tmp_path / str(epoch)  # the second one on another machine
        state = State(folder, at, remote=remote, copies=6_000)
        state.start_checking()
        state.arrange([ARRANGED], frozenset({"R"}) if epoch else frozenset())
        for part in range(3):
            state.begin()
            first = 300 * epoch + 100 * part
            state.arrangements["R"].append([rows(first, 100)])
            expected += range(first, first + 100)
            at = state.prepare()
            state.committed()
            kept = sum(p.stat().st_size for p in folder.glob("*.run") if p.name in state.manifest.files)
            assert kept <= 6_000
        assert numbers(state) == expected
        state.close()
    assert len(s3.names("bounded")) >= 6


def test_a_file_that_is_gone_is_told_at_the_start(s3: S3, tmp_path: Path) -> None:
    remote = Remote(s3.address("gone"), "one")
    at = filled(tmp_path / "copies", remote=remote)
    state = State(tmp_path / "copies", at, remote=remote)
    name = min(state.manifest.files - {at["file"]})
    state.close()
    s3.client.delete_object(Bucket=BUCKET, Key=f"gone/one/{name}")
    state = State(tmp_path / "elsewhere", at, remote=remote)
    with pytest.raises(BelvedereError, match=name) as raised:
        state.start_checking()
    assert raised.value.diagnostics[0].code == "B7061"
    state.close()


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_damaged_file_of_the_address_is_told_by_name(s3: S3, tmp_path: Path, damage: str) -> None:
    remote = Remote(s3.address(damage), "one")
    at = filled(tmp_path / "copies", remote=remote)
    name = f"{damage}/one/{at['file']}"
    if damage == "missing":
        s3.client.delete_object(Bucket=BUCKET, Key=name)
    else:
        s3.client.put_object(Bucket=BUCKET, Key=name, Body=b"x" * (at["offset"] + at["length"]))
    with pytest.raises(BelvedereError, match=at["file"]) as raised:
        State(tmp_path / "elsewhere", at, remote=remote)
    assert raised.value.diagnostics[0].code == "B7061"
    assert not list((tmp_path / "elsewhere").glob("*.part"))


@pytest.mark.parametrize("address", ["no-such-bucket", "denied"])
def test_an_address_that_cannot_be_written_undoes_the_epoch(s3: S3, tmp_path: Path, address: str) -> None:
    remote = Remote(s3.address("kept", bucket=BUCKET if address == "denied" else address), "one")
    if address == "denied":
        s3.fails = lambda method, path: "before" if method in {"PUT", "POST"} else None
    state = State(tmp_path, None, remote=remote)
    state.arrange([ARRANGED], frozenset())
    state.begin()
    state.arrangements["R"].append([rows(0, 5)])
    with pytest.raises(BelvedereError, match="could not be written") as raised:
        state.prepare()
    assert raised.value.diagnostics[0].code == "B7064"
    state.rollback()
    assert not list(tmp_path.iterdir())
    state.close()


SCRIPT = """
CREATE TABLE T (k INT PRIMARY KEY, a INT, b INT);
Sums := SELECT a, sum(b) AS s, count(*) AS n FROM T GROUP BY a;
Pairs := SELECT x.k, y.k AS other FROM T x JOIN T y ON x.a = y.a AND x.k < y.k;
"""


def agree(wb: Workbench) -> None:
    for view, batch in wb.batches(("Sums", "Pairs")).items():
        assert sorted(map(repr, wb.rows(view))) == sorted(map(repr, batch))


@pytest.mark.thorough
def test_a_workbench_goes_on_after_a_crash_around_each_write(s3: S3, executor: Any, tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text(f'[run]\nstate = "{s3.address("bench")}"\n')
    store = f"sqlite:///{tmp_path}/shop.db"
    wb = Workbench(SCRIPT, store=store, spark=executor, project=load_project(tmp_path))
    for epoch in range(3):
        for at in ("before", "after", None):
            wb.insert("T", [{"k": 3 * epoch + n, "a": n % 2, "b": epoch + n} for n in range(4)])
            s3.fails = lambda method, path, at=at: at if method in {"PUT", "POST"} else None
            if at is not None:
                with pytest.raises(BelvedereError) as raised:
                    wb.step()
                assert raised.value.diagnostics[0].code == "B7064"
            s3.fails = lambda method, path: None
            if epoch == 1:
                for copy in (tmp_path / "shop.state").rglob("*.run"):
                    copy.unlink()
            if at is not None:
                wb.restart()
            wb.step()
            agree(wb)
    assert len(state_rows("Pairs", store)) == len(wb.rows("Pairs"))
    wb.restart()
    wb.insert("T", [{"k": 1, "a": 5, "b": 5}])
    wb.step()  # sweeps
    agree(wb)
    state = wb.engine.state
    state.merging.wait()
    merged = {m.run.place.file for merge in state.merging._under_way for m in merge.future.result()}
    named = {p.file for p in state._places} | state.manifest.retired.keys()
    assert state.files.remote is not None
    assert set(state.files.remote.names()) == named | merged
    wb.close()


def test_tasks_that_do_not_see_the_folder_send_what_they_write(s3: S3, tmp_path: Path) -> None:
    remote = Remote(s3.address("apart"), "one")
    state = State(tmp_path / "copies", None, remote=remote)
    state.arrange([ARRANGED], frozenset())
    state.begin()
    task = AppendTask(replace(state.definition("R"), folder=tmp_path / "not there"))
    sent = pickle.loads(cloudpickle.dumps(task))
    answers = read_answers(pa.Table.from_batches(sent(iter([rows(0, 50), rows(50, 50)]))))
    state.take_over("R", [], answers.changes)
    at = state.prepare()
    state.committed()
    state.close()
    state = State(tmp_path / "elsewhere", at, remote=remote)
    state.arrange([ARRANGED], frozenset({"R"}))
    assert numbers(state) == list(range(100))
    state.close()
