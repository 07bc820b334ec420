"""Pairs of a value and a column type in the form of each intake, with the expected result: one table for all
intakes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

REJECTED = "rejected"
UTC_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Pair:
    """A value in each form, the type of its column, and what it becomes; `but`: where it becomes something else, and
    why."""

    type: str
    json: str
    """As JSON, which is pushed, sent by Kafka and in files."""
    typed: Any
    """As Python has it, in an Arrow array of the type `kind`: in Parquet, of Avro and of tables that Spark reads."""
    kind: pa.DataType
    right: Any = REJECTED
    text: str | None = None
    """In CSV and as Postgres writes it; None: the JSON without quotes."""
    but: dict[str, tuple[Any, str]] = field(default_factory=dict)

    @property
    def as_text(self) -> str:
        return self.json.strip('"') if self.text is None else self.text

    def given(self, size: int = 1, place: int = 0) -> pa.Array:
        """The typed value among NULLs."""
        plain = pa.int64() if pa.types.is_timestamp(self.kind) and isinstance(self.typed, int) else self.kind
        return pa.array([self.typed if n == place else None for n in range(size)], plain).cast(self.kind)

    def becomes(self, intake: str) -> Any:
        return self.but[intake][0] if intake in self.but else self.right


WHOLE = (2, "its type says nothing of fractions, and libraries write whole numbers with NULLs as doubles")
TEXTS = (REJECTED, "its columns of texts are no numbers")
NO_TIMES = (REJECTED, "its DATEs have no times, and are written without")
NO_ZEROS = (REJECTED, "its times have no zeros behind a microsecond")
NESTED = (REJECTED, "its arrays and rows are STRING here")
AT = datetime(2024, 1, 1, 23, 30, 0, 123456, UTC)
NOON = "2024-01-01T12:00:00"
LONG = "12345678901234567890.123456789012345678"
PAIRS = {
    "a fraction": Pair("BIGINT", "1.5", 1.5, pa.float64()),
    "a whole number": Pair("BIGINT", "2", 2, pa.int64(), 2),
    "a whole double": Pair("BIGINT", "2.0", 2.0, pa.float64(), but=dict.fromkeys(("parquet", "spark", "avro"), WHOLE)),
    "a whole decimal": Pair(
        "BIGINT", "2.00", Decimal("2.00"), pa.decimal128(10, 2), but=dict.fromkeys(("parquet", "spark", "avro"), WHOLE)
    ),
    "not a number for a BIGINT": Pair("BIGINT", '"NaN"', float("nan"), pa.float64()),
    "beyond 64 bits": Pair("BIGINT", "9223372036854775808", Decimal(2**63), pa.decimal128(20, 0)),
    "a double beyond 64 bits": Pair("BIGINT", "9.3e18", 9.3e18, pa.float64()),
    "the largest of 64 bits": Pair("BIGINT", str(2**63 - 1), 2**63 - 1, pa.int64(), 2**63 - 1),
    "more than a double keeps": Pair("BIGINT", str(-(2**53) - 1), -(2**53) - 1, pa.int64(), -(2**53) - 1),
    "a text with a mark within": Pair("BIGINT", '"1_000"', "1_000", pa.string()),
    "beyond 32 bits": Pair("INT", "1099511627776", 2**40, pa.int64()),
    "the least of 8 bits": Pair("TINYINT", "-128", -128, pa.int64(), -128),
    "beyond 8 bits": Pair("TINYINT", "128", 128, pa.int64()),
    "a text for a number": Pair("INT", '"x"', "x", pa.string()),
    "a boolean for a number": Pair("INT", "true", True, pa.bool_()),
    "a time for a number": Pair("BIGINT", f'"{NOON}"', AT, UTC_TIME),
    "two for a boolean": Pair("BOOLEAN", "2", 2, pa.int64()),
    "a fraction for a boolean": Pair("BOOLEAN", "0.5", 0.5, pa.float64()),
    "true": Pair("BOOLEAN", "true", True, pa.bool_(), True),
    "a decimal": Pair("DECIMAL(10, 2)", "1.55", Decimal("1.55"), pa.decimal128(10, 2), Decimal("1.55")),
    "a decimal of a double": Pair("DECIMAL(10, 2)", "1.1", 1.1, pa.float64(), Decimal("1.10")),
    "a zero more": Pair("DECIMAL(10, 2)", "1.550", Decimal("1.550"), pa.decimal128(10, 3), Decimal("1.55")),
    "a digit more": Pair("DECIMAL(10, 2)", "1.555", Decimal("1.555"), pa.decimal128(10, 3)),
    "a digit more of a double": Pair("DECIMAL(10, 2)", "1.555", 1.555, pa.float64()),
    "a digit far behind": Pair("DECIMAL(38, 18)", f"0.{'1' * 19}", Decimal(f"0.{'1' * 19}"), pa.decimal128(38, 19)),
    "all digits of a decimal": Pair("DECIMAL(38, 18)", LONG, Decimal(LONG), pa.decimal128(38, 18), Decimal(LONG)),
    "the same as a text": Pair(
        "DECIMAL(38, 18)",
        f'"{LONG}"',
        LONG,
        pa.string(),
        Decimal(LONG),
        but=dict.fromkeys(("parquet", "spark", "avro"), TEXTS),
    ),
    "a whole number of 38 digits": Pair(
        "DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38), pa.decimal128(38, 0), Decimal("9" * 38)
    ),
    "an exponent for a decimal": Pair(
        "DECIMAL(38, 18)", "1.5e-17", Decimal("1.5e-17"), pa.decimal128(38, 18), Decimal("1.5e-17")
    ),
    "less than a decimal has": Pair("DECIMAL(38, 18)", "1e-19", 1e-19, pa.float64()),
    "a text for a decimal": Pair("DECIMAL(10, 2)", '"1_000"', "1_000", pa.string()),
    "too large a decimal": Pair("DECIMAL(4, 2)", "100.00", Decimal("100.00"), pa.decimal128(10, 2)),
    "more than 38 digits": Pair("DECIMAL(38, 0)", str(10**40), Decimal(10**40), pa.decimal256(50, 0)),
    "a double": Pair("DOUBLE", "0.1", 0.1, pa.float64(), 0.1),
    "a number for a double": Pair("DOUBLE", "7", 7, pa.int64(), 7.0),
    "more digits than a double keeps": Pair("DOUBLE", f"0.{'1' * 20}", 1 / 9, pa.float64(), 1 / 9),
    "a text of marks for a double": Pair("DOUBLE", '"1_0"', "1_0", pa.string()),
    "not a number": Pair("DOUBLE", '"NaN"', float("nan"), pa.float64(), float("nan")),
    "a text": Pair("STRING", '"ü 🚲"', "ü 🚲", pa.string(), "ü 🚲"),
    "a date": Pair("DATE", '"2024-01-01"', date(2024, 1, 1), pa.date32(), date(2024, 1, 1)),
    "midnight for a date": Pair(
        "DATE",
        '"2024-01-01T00:00:00Z"',
        datetime(2024, 1, 1, tzinfo=UTC),
        UTC_TIME,
        date(2024, 1, 1),
        but={"feed": NO_TIMES},
    ),
    "a time of day for a date": Pair("DATE", '"2024-01-01T23:30:00Z"', AT, UTC_TIME),
    "a number for a date": Pair("DATE", "1.5", 1.5, pa.float64()),
    "a time": Pair("TIMESTAMP", '"2024-01-01T23:30:00.123456Z"', AT, UTC_TIME, AT),
    "a nanosecond": Pair(
        "TIMESTAMP", '"2024-01-01T23:30:00.123456789Z"', 1704151800123456789, pa.timestamp("ns", "UTC")
    ),
    "zeros behind a microsecond": Pair(
        "TIMESTAMP",
        '"2024-01-01T23:30:00.123456000Z"',
        1704151800123456000,
        pa.timestamp("ns", "UTC"),
        AT,
        but={"feed": NO_ZEROS},
    ),
    "a list": Pair("ARRAY<BIGINT>", "[1,2]", [1, 2], pa.list_(pa.int64()), [1, 2], but={"feed": NESTED}),
    "a fraction in a list": Pair("ARRAY<BIGINT>", "[1,1.5]", [1.0, 1.5], pa.list_(pa.float64())),
    "a struct": Pair(
        "STRUCT<a: BIGINT>", '{"a":1}', {"a": 1}, pa.struct([("a", pa.int64())]), {"a": 1}, but={"feed": NESTED}
    ),
    "a fraction in a struct": Pair("STRUCT<a: BIGINT>", '{"a":1.5}', {"a": 1.5}, pa.struct([("a", pa.float64())])),
}
