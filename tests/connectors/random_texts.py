"""Random rows of all types as CSV and JSON: usual texts, texts that only one reader accepts, damaged bytes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa

from belvedere.schema import TIMESTAMP, Column

COLUMNS = (
    Column("id", pa.int64(), nullable=False),
    Column("n32", pa.int32()),
    Column("n16", pa.int16()),
    Column("n8", pa.int8()),
    Column("f64", pa.float64()),
    Column("f32", pa.float32()),
    Column("d62", pa.decimal128(6, 2)),
    Column("d38", pa.decimal128(38, 10)),
    Column("d22", pa.decimal128(2, 2)),
    Column("yes", pa.bool_()),
    Column("name", pa.string()),
    Column("day", pa.date32()),
    Column("at", TIMESTAMP),
    Column("local", pa.timestamp("us")),
    Column("raw", pa.binary()),
)
NESTED = (
    Column("many", pa.list_(pa.int32())),
    Column("part", pa.struct([("a", pa.int64()), ("at", TIMESTAMP), ("d", pa.decimal128(6, 2))])),
    Column("parts", pa.list_(pa.struct([("b", pa.string()), ("day", pa.date32())]))),
)
ODD = (
    "| | 5|5 |+5|-5|--5|1e3|1E3|1e-3|0x10|5.0|2.0|-0|-0.0|007|1_000|1,5|5L|1d|127|128|-128|-129|32767|32768"
    "|2147483647|2147483648"
    "|9223372036854775807|9223372036854775808|NaN|nan|inf|Infinity|-Infinity|-inf|1e400|1e39|1e-400|.5|5.|-.5|-"
    "|.|e5|1e|16777217"
    "|12345.6|1234.56|1.505|1.50|0.99|.99|1.00|0001.5|1234567890123456789012345678.0123456789"
    "|999999999999999999999999999999999999999"
    "|true|TRUE|True|t|yes|no|y|0|1|on|tru|2020-01-31|2020-1-3|2020-02-30|2020-02-29|2020|2020-01|0000-01-01"
    "|0001-01-01|9999-12-31"
    "|10000-01-01|2020-01-01 10|2020-01-01 10:11|2020-01-01 10:11:12|2020-01-01T10:11:12|2020-01-01t10:11:12"
    "|2020-01-01  10:11:12"
    "|2020-01-01 10:11:12.1|2020-01-01 10:11:12.123456|2020-01-01 10:11:12.1234567|2020-01-01 10:11:12."
    "|2020-01-01 1:2:3"
    "|2020-01-01T10:11:12Z|2020-01-01T10:11:12z|2020-01-01T10:11:12.5Z|2020-01-01T10:11:12+02:00"
    "|2020-01-01T10:11:12-13:45"
    "|2020-01-01T10:11:12+0200|2020-01-01T10:11:12+02|2020-01-01T10:11:12+18:01"
    "|2020-01-01 10:11:12 Europe/Berlin|10:11:12"
    "|2020-01-01 24:00:00|2020-01-01 23:59:60|2020-01-01T10:11Z|2020-01-01 10:11+02:00|2020-01-01Z|epoch|now|today"
    '|NULL|null|NA|é|\u2028|😀|a\tb|x,y|x"y|"|[1]|[1, null]|{}|{"a": 1}|{"a": "x"}|YWI=|\x01'
).split("|")
GOOD: dict[str, Callable[[Random], Any]] = {
    "id": lambda r: r.randrange(-(2**63), 2**63),
    "n32": lambda r: r.randrange(-(2**31), 2**31),
    "n16": lambda r: r.randrange(-(2**15), 2**15),
    "n8": lambda r: r.randrange(-128, 128),
    "f64": lambda r: r.choice([r.random() * 10 ** r.randrange(-300, 300), float(r.randrange(10**6))]),
    "f32": lambda r: r.choice([0.5, 1.1, 3.4e38, 1e-40, r.random()]),
    "d62": lambda r: f"{r.randrange(-9999, 9999)}.{r.randrange(100):02}",
    "d38": lambda r: f"{r.randrange(-(10**27), 10**27)}.{r.randrange(10**10):010}",
    "d22": lambda r: f"0.{r.randrange(100):02}",
    "yes": lambda r: r.choice([True, False]),
    "name": lambda r: "".join(r.choice("abc é,;\u2028'\\") for _ in range(r.randrange(12))),
    "day": lambda r: _day(r),  # noqa: PLW0108
    "at": lambda r: _time(r) + r.choice(["", "", "Z", "+02:00", "-11:30"]),
    "local": lambda r: _time(r),  # noqa: PLW0108
    "raw": lambda r: r.choice(["", "YWI=", "abcd"]),
    "many": lambda r: [r.choice([None, 1, -5]) for _ in range(r.randrange(4))],
    "part": lambda r: {"a": r.choice([None, 7]), "at": r.choice([None, _time(r)]), "d": r.choice([None, 1.25, 7])},
    "parts": lambda r: [{"b": "x", "day": "2020-01-31"}, None, {}][: r.randrange(4)],
}
PLAIN_JSON = ("d62", "d38", "d22")


def _day(r: Random) -> str:
    return f"{r.randrange(1, 10000):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"


def _time(r: Random) -> str:
    digits = r.randrange(7)
    fraction = f".{r.randrange(10**digits):0{digits}}" if digits else ""
    return f"{_day(r)}{r.choice(' T')}{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}{fraction}"


def csv_text(r: Random, rows: int, odd: float) -> str:
    text = io.StringIO(newline="")
    out = csv.writer(
        text, lineterminator=r.choice(["\n", "\r\n"]), quoting=r.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    )
    names = [c.name for c in COLUMNS]
    out.writerow([*names, "other"])
    for _ in range(rows):
        cells = ["" if r.random() < 0.1 else r.choice(ODD) if r.random() < odd else str(GOOD[n](r)) for n in names]
        out.writerow([*cells, "x"])
    return text.getvalue()


def json_text(r: Random, rows: int, odd: float, columns: tuple[Column, ...], other: float = 0.1) -> str:
    lines = []
    for _ in range(rows):
        members = [f'"{c.name}": {_fragment(r, c.name, odd)}' for c in columns if r.random() > 0.1 or c.name == "id"]
        members += ['"other": [{"a": [1, "}"]}]'] if r.random() < other else []
        lines.append("{" + ", ".join(members) + "}")
    return "\n".join(lines) + r.choice(["", "\n"])


def _fragment(r: Random, name: str, odd: float) -> str:
    if r.random() < odd:
        text = r.choice([o for o in ODD if "\n" not in o])
        return r.choice([json.dumps(text), text or "null"])
    found = GOOD[name](r)
    return str(found) if name in PLAIN_JSON and r.random() < 0.7 else json.dumps(found, ensure_ascii=r.random() < 0.5)


DAMAGE = (b'"', b"\n", b"\r", b",", b"\xff", b"\x00", b"{", b"}", b"\\", b" ", "\ufffd".encode(), b"9" * 1100)


def damaged(r: Random, text: str) -> bytes:
    """The text with some bytes replaced or added."""
    data = bytearray(text.encode())
    for _ in range(max(1, len(data) // 3_000)):
        place = r.randrange(len(data))
        data[place : place + r.randrange(2)] = r.choice(DAMAGE)
    return bytes(data)
