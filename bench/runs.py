"""Compression of a run: bytes of the file, and processor time to write it, to open it and to look up keys.

`python -m bench.runs` prints a table: a run of 1,000,000 bids, with and without a text column, uncompressed and with
LZ4.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from belvedere.schema import KEY
from belvedere.state.sorted_run import Arranged, make_run, read_run, with_indexes

ROWS = 1_000_000
FACTOR = 0x9E3779B9
DICE = np.random.default_rng(1)
AUCTIONS = DICE.integers(1_000, 60_000, ROWS)


def bids(text: bool) -> pa.RecordBatch:
    """Return the rows of a run in the form of the input of bids."""
    uids = pa.array(np.arange(ROWS))
    columns = {
        "auction": pa.array(AUCTIONS),
        "bidder": pa.array(DICE.integers(0, 50_000, ROWS)),
        "price": pa.array(DICE.integers(1, 10**6, ROWS)),
        "at": pa.array(1_700_000_000_000_000 + np.arange(ROWS) * 100).cast(pa.timestamp("us", "UTC")),
        "_uid": uids,
        KEY: uids.cast(pa.string()),
        "_h0": pa.array(AUCTIONS * FACTOR),
    }
    if text:
        columns["url"] = pa.array(
            [f"https://www.nexmark.com/{n}/item.htm?query=1" for n in DICE.integers(0, 10**6, ROWS)]
        )
    return pa.RecordBatch.from_pydict(columns)


def seconds(function: Callable[[], object], times: int) -> float:
    """Return the minimum processor time of some calls."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        function()
        taken.append(time.process_time() - started)
    return min(taken)


def measure(path: Path, text: bool, compression: str | None) -> str:
    """Return one line of the table."""
    rows = bids(text)
    arranged = Arranged("bids", rows.schema, ("_h0",), append_only=True)
    batch = with_indexes(make_run(rows, arranged))

    def write() -> None:
        options = ipc.IpcWriteOptions(compression=compression)
        with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)

    def look_up(count: int) -> None:
        keys = np.unique(AUCTIONS[:count] * FACTOR)
        with pa.memory_map(str(path)) as file:
            run = read_run(ipc.open_file(file).get_batch(0), arranged, None)  # type: ignore[arg-type]
            index = run.index("_h0")
            list(run.taken(run.living(index.at(index.of_keys(keys)[0]))))

    writing = seconds(write, 1)
    found = " | ".join(f"{seconds(lambda n=n: look_up(n), 5) * 1000:.1f} ms" for n in (100, 10_000))  # type: ignore[misc]
    return (
        f"| {'with' if text else 'without'} | {compression or 'none'} | {path.stat().st_size:,} | {writing:.2f} s "
        f"| {found} |"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for has_text in (False, True):
            for chosen in (None, "lz4"):
                print(measure(Path(folder) / f"{has_text}{chosen}.run", has_text, chosen))
