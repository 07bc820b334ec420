"""The connector `spark`: tables that Spark reads with a built-in format or one of a jar in its session: JDBC, Parquet,
...

In: a source with a `format` and `options`, a table with `increasing` (a column whose values increase) or `version` (an
expression whose value changes with the rows). Out: with a column, the rows above the last value. With a version, all
rows, which replace those before; the engine stores the difference. The offset is the last value or version. Columns
must be declared: `belvedere check` starts no JVM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from belvedere.connectors.connector import Arrived, FeedRequest, Imported, OffsetRange, Sampled, SourcePart
from belvedere.connectors.outage_backoff import Away
from belvedere.connectors.reading.file_rows import MAX_TEXT_LENGTH, REASON, null_reasons
from belvedere.connectors.reading.formats import MAX_REJECTED
from belvedere.connectors.reading.text_records import TEXT
from belvedere.connectors.reading.value_reasons import MICROSECONDS, joined, judged
from belvedere.connectors.run_records import RejectedRow
from belvedere.engine.rows.scratch_rows import scratch_frame
from belvedere.errors import BelvedereError, counted, fail
from belvedere.functions.spark_types import quote
from belvedere.project.settings import Source
from belvedere.schema import WEIGHT
from belvedere.values.rejections import reason_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVERY_SECONDS = 10.0
"""Seconds between checks for new rows: each check is a query."""
LAST, VERSION = "last", "version"
SECRET = ("url", "password")
"""Options that are never shown."""
FAR = "INTERVAL '2' DAY"
EARLY, LATE = "0002", "9999"
"""Range of times, as texts, in which a query may use limits up to `FAR` beside a time."""
ENDLESS = ("NaN", "Infinity")
LAST_DAY = "9999-12-30"
"""The last day of the year 9999 in any zone: Spark's value of a database's `infinity`."""
INCREASING = (T.NumericType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)


def tables(source: Source) -> Sequence[str]:
    """Return the tables that the project file declares."""
    return tuple(source.tables)


def columns(source: Source, table: str) -> pa.Schema:
    """Raise B6250: only the project file can declare the columns."""
    hint = f'write [sources.{source.name}.tables.{table}] columns = {{ id = "BIGINT" }}'
    raise fail("B6250", f'the columns of table "{table}" are not declared', hint=hint)


def parts(source: Source, imports: Sequence[Imported]) -> Iterator[SourcePart]:
    """Yield the declared tables, how each is read, and its progress. Spark is not queried for new rows."""
    by_table = {i.table: i for i in imports}
    for table, declared in source.tables.items():
        imported = by_table.get(table)
        name, offset = ("", {}) if imported is None else (imported.name, imported.offset)
        by = {k: str(declared[k]) for k in ("increasing", "version") if k in declared}
        note = "" if by else "needs `increasing` or `version`"
        taken = offset.get(LAST, offset.get(VERSION))
        yield SourcePart(table, imported=name, facts={"format": source.format, **by}, taken=taken, note=note)


def sample(requested: FeedRequest, rows: int, spark: Callable[[], SparkSession]) -> Sampled:
    """Return the first and last rows by the increasing column; with a version any rows. Raises B6250, B6251."""
    return SparkFeed(requested).sample(rows, spark())


def open_feed(requested: FeedRequest) -> SparkFeed:
    """Open the feed of a table at its offset."""
    return SparkFeed(requested)


@dataclass(frozen=True)
class SparkTable:
    """Parameters with which Spark reads a table."""

    source: str
    table: str
    format: str
    options: Mapping[str, str]

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the table as it is now."""
        return spark.read.format(self.format).options(**self.options).load()

    @contextmanager
    def explaining_failures(self) -> Iterator[None]:
        """Convert errors of Spark inside the block to the diagnostic B6251."""
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            hint = (
                "check that its storage can be reached, and that the session has its jars: "
                '[spark] "spark.jars.packages"'
            )
            message = f'table "{self.table}" of source "{self.source}" cannot be read by Spark'
            raise fail("B6251", message, detail=self._said(error), hint=hint) from error

    def _said(self, error: Exception) -> str:
        """Return Spark's error and its cause, without texts that may contain a password."""
        first, last = _lines(str(error)), _lines(_cause(error))
        text = first[:500] if last in first else f"{first[:300]}; {last[:200]}"
        for name, value in self.options.items():
            text = text.replace(value, "***") if name.lower() in SECRET and value else text
        return text


def reading_of(source: Source, table: str) -> SparkTable:
    """Return the reader's format and options: those of the source, then those of the table. Raises B6250."""
    declared = source.declared(table)
    if not source.format:
        raise fail(
            "B6250",
            f'source "{source.name}" has no format',
            hint='write `format = "jdbc"`, or another format that Spark reads',
        )
    given = {k: v for k, v in source.options.items() if k != "every_seconds"} | dict(declared.get("options", {}))
    if "path" in declared:
        given["path"] = declared["path"]
    return SparkTable(source.name, table, source.format, {str(k): _text(v) for k, v in given.items()})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class SparkFeed:
    """The feed of a table, with its progress."""

    def __init__(self, requested: FeedRequest):
        source, table, declared = requested.source, requested.table, requested.source.declared(requested.table)
        self.id, self.columns, self.key = requested.input.id, tuple(requested.columns), requested.input.primary_key
        self.reading = reading_of(source, table)
        self.increasing: str | None = declared.get("increasing")
        self.version: str | None = declared.get("version")
        if (self.increasing is None) == (self.version is None):
            hint = (
                'write `increasing = "id"` if rows are only added, '
                'or `version = "max(changed)"` to re-read all rows when it changes'
            )
            raise fail("B6250", f'table "{table}" of source "{source.name}" needs `increasing` or `version`', hint=hint)
        if self.version is not None and not self.key:
            hint = 'write `primary_key = ["id"]`: it is needed to compare the rows of two versions'
            raise fail("B6250", f'table "{table}" with a version has no primary key', hint=hint)
        self.every = float(requested.options.get("every_seconds", EVERY_SECONDS))
        self.offset: Mapping[str, Any] = requested.offset
        self._asked: float | None = None
        self._is_over = False
        """With `once`: the first look ends the feed."""
        self._away = Away()
        self._counts_nulls = self.increasing is not None

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """Return the range up to the new largest value or version, at intervals of `EVERY_SECONDS`, since each check is
        a query."""
        spark = SparkSession.getActiveSession()
        if spark is None:
            return None
        if self._is_over or (self._asked is not None and time.monotonic() - self._asked < self.every):
            return None
        if self._away.failure is not None and self._away.is_pausing and not once:
            raise self._away.failure
        try:
            with self.reading.explaining_failures():
                found = self._increased(spark) if self.increasing is not None else self._versioned(spark)
        except BelvedereError as error:
            self._away.failed(error)
            raise
        self._away.answered()
        self._asked = time.monotonic()
        self._is_over = once
        return found

    def _increased(self, spark: SparkSession) -> OffsetRange | None:
        frame = self._checked(spark)
        kind = self._kind(frame)
        last = F.max(self._column).cast("string")
        end = frame.where(self._above(kind)).agg(last).collect()[0][0]
        if end is not None:
            self._refuse_endless(end, kind)
        return None if end is None else OffsetRange({LAST: end}, kind)

    def _refuse_endless(self, last: str, kind: T.DataType) -> None:
        """Raise B6250 if the largest value is the maximum of its type: no later row would be read."""
        is_time = isinstance(kind, T.DateType | T.TimestampType | T.TimestampNTZType)
        if last in ENDLESS or (is_time and (last >= LAST_DAY or last.startswith("+"))):
            what = (
                f'column "{self.increasing}" of table "{self.reading.table}" has the value {last}, '
                "after which no value can follow"
            )
            why = "of a database, `infinity` is read as the last day of the year 9999" if is_time else None
            hint = "exclude such rows (a query as `dbtable`), name another column, or read by a `version`"
            raise fail("B6250", what, detail=why, hint=hint)

    def _kind(self, frame: DataFrame) -> T.DataType:
        """Return the type of the increasing column. Raises B6250."""
        kind: T.DataType = frame.select(self._column).schema[0].dataType
        if not isinstance(kind, INCREASING):
            message = f'column "{self.increasing}" of table "{self.reading.table}" is {kind.simpleString().upper()}'
            raise fail("B6250", f"{message}, which cannot increase", hint="name a number, a time or a text")
        return kind

    @property
    def _column(self) -> Column:
        assert self.increasing is not None
        return F.col(quote(self.increasing))

    def _above(self, kind: T.DataType) -> Column:
        last = self.offset.get(LAST)
        return self._column.isNotNull() if last is None else self._beside(kind, last, above=True)

    def _beside(self, kind: T.DataType, value: str, above: bool) -> Column:
        """Return the condition on rows above a value, or up to it.

        Spark pushes conditions on columns down to a database, but not conditions on functions of them.
        """

        def compared(column: Column, limit: Column) -> Column:
            return column > limit if above else column <= limit

        column, limit = self._column, F.lit(value).cast(kind)
        if isinstance(kind, T.StringType):  # a database may have its own order
            return compared(column.cast("binary"), limit.cast("binary"))
        if not isinstance(kind, T.TimestampType):
            return compared(column, limit)
        exact = compared(F.unix_micros(column), F.unix_micros(limit))  # JDBC writes times in the machine's zone
        if not EARLY < value < LATE:
            return exact
        return exact & compared(column, limit - F.expr(FAR) if above else limit + F.expr(FAR))

    def _versioned(self, spark: SparkSession) -> OffsetRange | None:
        found, count = self._checked(spark).agg(F.expr(str(self.version)).cast("string"), F.count("*")).collect()[0]
        if found is None and count:
            what = (
                f'the version of table "{self.reading.table}" is NULL, '
                f"so changes of its rows ({count:,}) cannot be detected"
            )
            raise fail(
                "B6250", what, hint="write a version that is never NULL: `concat_ws(' ', max(changed), count(*))`"
            )
        return None if VERSION in self.offset and self.offset[VERSION] == found else OffsetRange({VERSION: found})

    def _checked(self, spark: SparkSession) -> DataFrame:
        """Return the table. Raises B6250 if it lacks a column; the message lists its columns."""
        frame = self.reading.frame(spark)
        there = {f.name.casefold() for f in frame.schema}
        requested = [c.name for c in self.columns] + ([self.increasing] if self.increasing is not None else [])
        missing = next((n for n in requested if n.casefold() not in there), None)
        if missing is not None:
            listed = ", ".join(f'{f.name} = "{f.dataType.simpleString().upper()}"' for f in frame.schema)
            message = f'table "{self.reading.table}" of source "{self.reading.source}" has no column "{missing}"'
            raise fail("B6250", message, hint=f"Spark finds columns = {{ {listed} }}")
        return frame

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """Return the rows above the last value up to the new one, in order; with a version all rows."""
        notices: tuple[str, ...] = ()
        with self.reading.explaining_failures():
            frame = self._checked(spark)
            if self.increasing is not None:
                notices = self._null_notice(frame)
                kind, upto = span.content, self._beside(span.content, span.end[LAST], above=False)
                frame = frame.where(self._above(kind) & upto).orderBy(self._column)
            return self._taken(frame, notices)

    def _taken(self, frame: DataFrame, notices: tuple[str, ...]) -> Arrived:
        """Return the rows with the types of the table's columns. Rows that do not fit, or have no key, are rejected."""
        with self.reading.explaining_failures():
            kinds = {f.name.casefold(): f.dataType for f in frame.schema}
            found = {c.name: judged(frame, F.col(quote(c.name)), kinds[c.name.casefold()], c) for c in self.columns}
            values = {name: value for name, (value, _) in found.items()}
            reason = F.coalesce(joined([reason for _, reason in found.values()]), null_reasons(values, self.columns))
            given = F.to_json(F.struct(*(F.col(quote(n)) for n in found)), {"timestampFormat": MICROSECONDS})
            typed = frame.select(
                *(v.alias(n) for n, v in values.items()), given.alias(TEXT), reason.alias(REASON)
            ).persist()
            try:
                rejected, refused = self._refused(typed)
                whole = (typed.where(F.col(REASON).isNull()) if refused else typed).drop(TEXT, REASON)
                rows = scratch_frame(whole.withColumn(WEIGHT, F.lit(1).cast("bigint")) if self.key else whole)
            finally:
                typed.unpersist()
        return Arrived(rows, rejected, refused, notices=notices, is_emptied=self.version is not None)

    def sample(self, rows: int, spark: SparkSession) -> Sampled:
        """Return some rows, whether or not they were read."""
        with self.reading.explaining_failures():
            frame = self._checked(spark)
            some = self._ends(frame, rows) if self.increasing is not None else frame.limit(rows)
            if self.version is not None:
                frame.agg(F.expr(self.version).cast("string")).collect()  # an expression that Spark rejects is reported
            spelled = {c.name.casefold(): c.name for c in self.columns}
            names, types = tuple(spelled.get(f.name.casefold(), f.name) for f in frame.schema), dict[str, pa.DataType]()
            for name, found in zip(names, frame.schema, strict=True):
                with suppress(PySparkException):  # a type that Arrow does not have
                    types[name] = to_arrow_type(found.dataType)
            return Sampled(self._taken(some, ()), names, types, order="none" if self.version else "rows")

    def _ends(self, frame: DataFrame, rows: int) -> DataFrame:
        """Return the first and last rows by the increasing column."""
        self._kind(frame)
        known, last = frame.where(self._column.isNotNull()), rows // 2
        if known.limit(rows + 1).count() <= rows:
            return known
        behind = known.orderBy(self._column.desc()).limit(last)
        return known.orderBy(self._column).limit(rows - last).unionByName(behind)

    def _null_notice(self, frame: DataFrame) -> tuple[str, ...]:
        """Return the notice, once per run, that rows with a NULL value are never read."""
        if not self._counts_nulls:
            return ()
        self._counts_nulls = False
        count = frame.where(self._column.isNull()).count()
        if not count:
            return ()
        rows = f'{counted(count, "row")} with NULL in "{self.increasing}"'
        return (f'table "{self.reading.table}" has {rows}: such rows are not read',)

    def _refused(self, frame: DataFrame) -> tuple[tuple[RejectedRow, ...], int]:
        """Return rejected rows with their reasons, the first ones with their text, and the number of all."""
        bad = frame.where(F.col(REASON).isNotNull())
        count = bad.count()
        reported = (
            bad.select(F.substring(TEXT, 1, MAX_TEXT_LENGTH), REASON).limit(MAX_REJECTED).collect() if count else []
        )
        return tuple(RejectedRow(self.id, self.reading.table, None, t, reason_of(r)) for t, r in reported), count

    def committed(self, span: OffsetRange) -> None:
        """Continue after the range."""
        self.offset = span.end

    def close(self) -> None:
        """Do nothing: no resource is open."""


def _cause(error: Exception) -> str:
    """Return the message of the root cause in a chain of Java exceptions: Spark's own hides, for example, a wrong
    password."""
    found = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while found is not None and found.getCause() is not None:
        found = found.getCause()
    return "" if found is None else str(found.getMessage() or "")


def _lines(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at "))
