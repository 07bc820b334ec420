"""One result per value: pairs of a value and a column type through every intake, and valid values through every
output."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.api.http.push_bodies import rows_of as pushed_rows
from belvedere.catalog.inputs import Input
from belvedere.compiler import compile_script
from belvedere.connectors.connector import FeedRequest, Outgoing
from belvedere.connectors.delta import open_outlet
from belvedere.connectors.exporting.event_files import WRITERS, json_lines
from belvedere.connectors.kafka.formats import payload_values
from belvedere.connectors.kafka.formats.json import decode
from belvedere.connectors.postgres.sink import PostgresOutlet
from belvedere.connectors.postgres.text_values import column_of
from belvedere.project.settings import Sink, Source
from belvedere.workbench.workbench import Workbench
from tests.connectors.verdicts import PAIRS, REJECTED, Pair
from tests.depth import at_night

NAMES = {what: f"c{number}" for number, what in enumerate(PAIRS)}
BY_DAY = (
    *("a fraction", "a whole double", "beyond 8 bits", "two for a boolean", "a digit more", "a text"),
    *("a time of day for a date", "a nanosecond", "a fraction in a struct"),
)
"""All pairs are in files by night: Spark plans long for many columns."""


def script(pairs: Mapping[str, Pair] = PAIRS) -> str:
    """A table with a column for each pair."""
    return f"CREATE TABLE T (k INT, {', '.join(f'{NAMES[w]} {p.type}' for w, p in pairs.items())}, PRIMARY KEY (k));\n"


@pytest.fixture(scope="module")
def table() -> Input:
    """The same, compiled."""
    return compile_script(script()).catalog.inputs["T"]


def compared(intake: str, found: Mapping[str, Any]) -> None:
    """Each pair has become what the table of pairs says."""
    wrong = {
        what: (value, PAIRS[what].becomes(intake))
        for what, value in found.items()
        if not same(value, PAIRS[what].becomes(intake))
    }
    assert not wrong, intake


def same(value: Any, other: Any) -> bool:
    return bool(value == other or (value != value and other != other))


def by_rows(rows: list[dict[str, Any]], pairs: Mapping[str, Pair] = PAIRS) -> dict[str, Any]:
    """Of rows, of which each has a pair's number as its key, the pairs' values."""
    there = {row["k"]: row for row in rows}
    return {what: there[n][NAMES[what]] if n in there else REJECTED for n, what in enumerate(pairs)}


def written(folder: Path, pairs: Mapping[str, Pair]) -> Iterator[Path]:
    """The pairs in a file of each format: a row has a value in the column of its pair alone."""
    size = len(pairs)
    lines = [f'{{"k":{n},"{NAMES[what]}":{pair.json}}}\n' for n, (what, pair) in enumerate(pairs.items())]
    (folder / "1.json").write_text("".join(lines))
    with (folder / "2.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["k", *(NAMES[what] for what in pairs)])
        writer.writerows([n, *[""] * n, pair.as_text, *[""] * (size - n - 1)] for n, pair in enumerate(pairs.values()))
    columns = {NAMES[what]: pair.given(size, n) for n, (what, pair) in enumerate(pairs.items())}
    pq.write_table(pa.table({"k": pa.array(range(size), pa.int32()), **columns}), folder / "3.parquet")
    yield from (folder / "1.json", folder / "2.csv", folder / "3.parquet")


@pytest.mark.spark
@pytest.mark.parametrize("names", [BY_DAY, *at_night([(tuple(PAIRS),)])], ids=["some", "all"])
def test_files_and_tables_that_spark_reads(spark: Any, tmp_path: Path, names: tuple[str, ...]) -> None:
    from belvedere.connectors.reading.reader import read_files
    from belvedere.connectors.run_records import SourceFile
    from belvedere.connectors.spark import SparkFeed

    pairs = {what: PAIRS[what] for what in names}
    table = compile_script(script(pairs)).catalog.inputs["T"]
    columns = [c for c in table.schema if not c.hidden]
    for path in written(tmp_path, pairs):
        file = SourceFile(str(path), path.stat().st_size, datetime.now(UTC))
        taken = read_files(spark, "T", [file], columns, {})
        compared(path.suffix[1:], by_rows(taken.rows.table.to_pylist(), pairs))
        assert taken.refused == len(taken.rejected) == len(pairs) - taken.rows.num_rows
        assert all('column "c' in r.reason for r in taken.rejected)
    # Spark reads no file that has such columns
    odd = {what for what, pair in pairs.items() if pair.kind in (pa.timestamp("ns", "UTC"), pa.decimal256(50, 0))}
    feed = SparkFeed(
        FeedRequest(
            table,
            Source("lake", "spark", format="parquet", tables={"T": {"increasing": "k"}}),
            "T",
            [c for c in columns if c.name not in {NAMES[w] for w in odd}],
        )
    )
    pq.write_table(pq.read_table(tmp_path / "3.parquet").drop_columns([NAMES[w] for w in odd]), tmp_path / "4.parquet")
    arrived = feed._taken(spark.read.parquet(str(tmp_path / "4.parquet")), ())
    kept: Any = arrived.rows
    rows = [r | dict.fromkeys(NAMES[w] for w in odd) for r in kept.table.to_pylist()]
    compared("spark", {what: value for what, value in by_rows(rows, pairs).items() if what not in odd})
    assert arrived.refused == len(pairs) - len(rows)


def test_what_is_pushed(table: Input) -> None:
    lines = [f'{{"k":{n},"{name}":{PAIRS[what].json}}}' for n, (what, name) in enumerate(NAMES.items())]
    found = pushed_rows(table, f"[{','.join(lines)}]".encode(), "application/json", 1000, {})
    compared("push", by_rows(found.rows.to_pylist()))


def test_messages(table: Input) -> None:
    """Of JSON those that Arrow does not take are read as lines of files are."""
    avro, taken = {}, {}
    for what, pair in PAIRS.items():
        column = table.schema[NAMES[what]]
        found = decode([f'{{"{column.name}":{pair.json}}}'.encode()], [column], {})
        if not found.undecided:
            taken[what] = REJECTED if found.refused else found.rows[column.name][0].as_py()
        if not isinstance(pair.kind, pa.TimestampType) or pair.kind.unit == "us":  # Avro's readers give microseconds
            value = pair.given()[0].as_py()
            read = payload_values.rows_of([b""], lambda _, name=column.name, v=value: {name: v}, [column], "a record")  # type: ignore[misc]
            avro[what] = REJECTED if read.refused else read.rows[column.name][0].as_py()
    assert len(taken) >= 10
    compared("kafka", taken)
    compared("avro", avro)


def test_a_change_feed_of_postgres(table: Input) -> None:
    found = {}
    for what, pair in PAIRS.items():
        text = pair.as_text.replace("Z", "+00").replace("T", " ") if pair.type == "TIMESTAMP" else pair.as_text
        values, misfits = column_of([text.encode()], table.schema[NAMES[what]])
        found[what] = REJECTED if misfits else values[0].as_py()
    compared("feed", found)


# -- ways out
# -------------------------------------------------------------------------------------------------------------

FITTING: dict[str, Pair] = {w: p for w, p in PAIRS.items() if p.right is not REJECTED}


@pytest.fixture(scope="module")
def events(table: Input) -> pa.Table:
    """The values that fit, in one event."""
    columns = {NAMES[w]: pa.array([p.right], table.schema[NAMES[w]].type) for w, p in FITTING.items()}
    more = {
        "_op": ["ADD"],
        "_event_time": pa.array([datetime.now(UTC)], pa.timestamp("us", "UTC")),
        "_seq": pa.array([1], pa.int64()),
    }
    return pa.table({**columns, **more})


def as_json(value: Any) -> Any:
    """What JSON has for a value: exact numbers and times as texts, no NaN."""
    if isinstance(value, float):
        return value if value == value else None
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value) if isinstance(value, date) else value


def test_sinks_that_write_texts_and_files(events: pa.Table) -> None:
    """`http`, Kafka and the console write the same lines."""
    (line,) = map(json.loads, json_lines(events))
    for what, pair in FITTING.items():
        assert line[NAMES[what]] == as_json(pair.right), what
    file = io.BytesIO()
    WRITERS["csv"]([events], file)
    (row,) = csv.DictReader(io.StringIO(file.getvalue().decode()))
    assert not [text for text in row.values() if "E-" in text]
    for what, pair in FITTING.items():
        kinds: dict[type, Callable[[str], Any]] = {
            int: int,
            float: float,
            Decimal: Decimal,
            bool: lambda t: t == "true",
        }
        kinds |= {
            str: str,
            date: date.fromisoformat,
            datetime: datetime.fromisoformat,
            list: json.loads,
            dict: json.loads,
        }
        assert same(kinds[type(pair.right)](row[NAMES[what]]), pair.right), what
    file = io.BytesIO()
    WRITERS["parquet"]([events], file)
    (row,) = pq.read_table(io.BytesIO(file.getvalue())).to_pylist()
    for what, pair in FITTING.items():
        assert same(row[NAMES[what]], pair.right), what


def test_a_table_of_delta(events: pa.Table, tmp_path: Path) -> None:
    outlet = open_outlet(Outgoing(Sink("lake", "delta", tmp_path), "T", "s"))
    outlet.reached()
    outlet.write(iter([events]))
    (row,) = pa.table(deltalake.DeltaTable(tmp_path / "T").scan().read_all()).to_pylist()
    for what, pair in FITTING.items():
        assert same(row[NAMES[what]], pair.right), what


@pytest.mark.postgres
def test_a_table_of_postgres(events: pa.Table, postgres_url: str) -> None:
    outlet = PostgresOutlet(Outgoing(Sink("out", "postgres", options={"url": postgres_url}), "T", "s"))
    outlet.reached()
    outlet.write(iter([events]))
    outlet.close()
    with psycopg.connect(postgres_url) as connection:
        cursor = connection.execute('SELECT * FROM "T"')
        row = dict(zip([c.name for c in cursor.description or ()], cursor.fetchone() or (), strict=True))
    for what, pair in FITTING.items():
        assert same(row[NAMES[what]], pair.right), what


@pytest.mark.usefixtures("each_store")
def test_the_store_and_the_api(executor: Any) -> None:
    """What `query` over a store and other tools read is in `tests/run/test_store_queries` and
    `tests/store/test_shown_views`."""
    wb = Workbench(script() + "V := SELECT * FROM T;\n", spark=executor)
    wb.insert("T", [{"k": 1, **{NAMES[w]: p.right for w, p in FITTING.items()}}])
    wb.step()
    (row,) = wb.rows("V")
    nested = {w: " { a }" if isinstance(p.right, dict) else "" for w, p in FITTING.items()}
    answer = wb.graphql(f"{{ v {{ {' '.join(NAMES[w] + nested[w] for w in FITTING)} }} }}")
    assert "errors" not in answer
    (shown,) = answer["data"]["v"]
    for what, pair in FITTING.items():
        assert same(row[NAMES[what]], pair.right), what
        exact = as_json(pair.right)
        if isinstance(pair.right, int) and not isinstance(pair.right, bool) and pair.type == "BIGINT":
            exact = shown[NAMES[what]]  # a number or a text, as the API says
            assert int(exact) == pair.right
        assert shown[NAMES[what]] == exact, what
    wb.close()
