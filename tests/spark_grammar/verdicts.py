"""Results of Spark's analyzer and of `check` for queries over the same tables.

In: texts of queries. Out: of each what either side says: its columns' types where it is accepted, a code where it is
refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from belvedere.compiler import compile_script
from belvedere.functions.spark_types import type_text
from belvedere.pipeline.choose import maintain
from belvedere.spark.analysis import analyze
from tests.spark_grammar.queries import Query
from tests.spark_grammar.samples import SCRIPT

CRASH = "crash"


@dataclass(frozen=True)
class Verdict:
    """`refused` is empty where a query is accepted, else the code; `types` of its columns, in order."""

    refused: str
    text: str = ""
    types: tuple[str, ...] = ()


def our_verdict(text: str) -> Verdict:
    """What `check` says; a crash is what ends without a diagnostic."""
    try:
        compiled = compile_script(f"{SCRIPT}V := {text};")
    except Exception as error:
        return Verdict(CRASH, f"{type(error).__name__}: {error}")
    errors = [d for d in compiled.diagnostics if d.severity == "error"]
    if errors:
        return Verdict(errors[0].code, errors[0].message)
    schema = compiled.catalog.views["V"].schema
    return Verdict("", types=tuple(type_text(c.type).upper() for c in schema.visible))


def spark_verdict(spark: Any, text: str) -> tuple[Verdict, Any]:
    """What Spark's analyzer says, and the DataFrame. The tables are temporary views."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        frame = spark.sql(text)
        types = tuple(f.dataType.simpleString().upper() for f in frame.schema.fields)
    except PySparkException as error:
        return Verdict(error.getCondition() or type(error).__name__, str(error).split("\n")[0]), None
    except Py4JError as error:
        return Verdict(CRASH, str(error).split("\n")[0]), None
    return Verdict("", types=types), frame


def is_told_by_run(spark: Any, text: str) -> bool:
    """Whether `check --spark`, and so `run`, refuses what `check` accepts."""
    compiled = compile_script(f"{SCRIPT}V := {text};")
    return bool(analyze(spark, compiled.catalog, maintain(compiled.catalog), {"V"}))


def is_deterministic(frame: Any) -> bool:
    """Whether Spark answers the query alike each time."""
    return bool(frame._jdf.queryExecution().analyzed().deterministic())


@dataclass(frozen=True)
class Judged:
    """A query with what either side says of it."""

    query: Query
    ours: Verdict
    spark: Verdict
    deterministic: bool

    @property
    def is_query(self) -> bool:
        """Whether Spark takes it, and would answer it alike each time."""
        return not self.spark.refused and self.deterministic

    @property
    def is_comparable(self) -> bool:
        """Whether both take it, and it has one answer."""
        return self.is_query and not self.ours.refused and self.query.exact

    @property
    def has_other_types(self) -> bool:
        """Whether the columns that both give have other types. A view's intervals have all the fields of their kind."""
        return self.is_comparable and list(map(_kind, self.ours.types)) != list(map(_kind, self.spark.types))


def _kind(type_: str) -> str:
    """A column's type without spaces and quotes, of an interval its kind."""
    whole = re.sub(r"[ `]", "", type_)
    return re.sub(
        r"INTERVAL(YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)[A-Z]*", lambda m: f"INTERVAL{m[1] in ('YEAR', 'MONTH')}", whole
    )


def judge(spark: Any, query: Query) -> Judged:
    """Ask both sides."""
    theirs, frame = spark_verdict(spark, query.text)
    return Judged(query, our_verdict(query.text), theirs, frame is not None and is_deterministic(frame))
