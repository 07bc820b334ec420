"""Numbers in answers: the fewest digits that say them exactly, whichever library reads the store."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pyarrow as pa

from belvedere.store import Store, open_reader
from belvedere.store.dialects import DIALECTS
from belvedere.store.protocol import Reader
from tests.store.samples import filled, row

KNOWN = (
    0.1,
    0.1 + 0.2,
    0.7999999999999999,
    1 / 3,
    -2.5e-7,
    1e22,
    5e300,
    123456789.12345678,
    0.0,
    -1.0,
    4097.2410326790005,
)


def digits(text: str) -> int:
    return len(re.sub(r"e.*|[-.]", "", text).strip("0"))


def texts(reader: Reader, type_: pa.DataType) -> list[str]:
    """The shares as an answer has them; the reader is closed."""
    text = DIALECTS[reader.dialect].json_text("share", type_)
    found = reader.execute(f"""SELECT ''||{text} FROM "Counts" ORDER BY number""")
    reader.close()
    return [text for (text,) in found]


def test_numbers_have_no_digit_too_many(store: Store, url: str) -> None:
    draw = random.Random(7)
    doubles = [
        *KNOWN,
        *(draw.uniform(-1e6, 1e6) for _ in range(200)),
        *(draw.random() * 10.0 ** draw.randint(-20, 10) for _ in range(200)),
    ]
    filled(store, [row(str(n), number=n, share=share) for n, share in enumerate(doubles)])
    with_adbc = texts(store.reader(), pa.float64())
    store.close()
    for found in (with_adbc, texts(open_reader(url), pa.float64())):
        assert [json.loads(t) for t in found] == doubles
        assert [t for t, d in zip(found, doubles, strict=True) if digits(t) > digits(repr(d))] == []


def test_floats_are_said_as_floats(store: Store, url: str) -> None:
    if not url.startswith("sqlite"):  # others have a type for them
        return
    draw = random.Random(7)
    floats = np.array([*KNOWN[:5], *(draw.uniform(-1e4, 1e4) for _ in range(200))], np.float32)
    filled(store, [row(str(n), number=n, share=float(share)) for n, share in enumerate(floats)])
    with_adbc = texts(store.reader(), pa.float32())
    store.close()
    elsewhere = texts(open_reader(url), pa.float32())
    assert [np.float32(t) for t in with_adbc] == [np.float32(t) for t in elsewhere] == list(floats)
    assert [digits(t) for t in elsewhere] == [digits(str(f)) for f in floats]
    assert elsewhere[0] == with_adbc[0] == "0.1"
