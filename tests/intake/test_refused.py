"""What the intake answers when it cannot write, cannot keep up, or is asked for an input that reads a source."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from belvedere.api.failures import RequestError
from belvedere.api.http import pushes
from belvedere.catalog.inputs import SourceTable
from belvedere.compiler import compile_script
from belvedere.intake import ingest_service
from belvedere.intake.journal import JournalPosition
from belvedere.intake.request_rows import read_rows
from belvedere.time.event_time import Clocks

CATALOG = compile_script("CREATE STREAM Orders (ticker STRING)").catalog


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 507), (errno.EIO, 503)])
def test_a_journal_that_cannot_be_written(number: int, status: int) -> None:
    answer = ingest_service._not_written(OSError(number, "no"))
    assert (answer.status, answer.body["code"]) == (status, "B8031")


def test_pushes_that_no_epoch_takes(tmp_path: Path) -> None:
    found = ingest_service.IngestService(CATALOG, tmp_path, Clocks(), JournalPosition())
    found._most = -1
    orders = CATALOG.inputs["Orders"]
    (answer,) = found.take([ingest_service.Request("Orders", read_rows(orders, [{"ticker": "A"}]), None, None, "x")])
    found.close()
    assert (answer.status, answer.body["code"]) == (503, "B8032")


def test_an_input_that_reads_a_source() -> None:
    orders = replace(CATALOG.inputs["Orders"], source=SourceTable("shop", "Orders", "files"))
    catalog = replace(CATALOG, inputs={"Orders": orders})
    request: Any = SimpleNamespace(path_params={"name": "Orders"})
    with pytest.raises(RequestError) as refused:
        pushes._input(catalog, request)
    assert (refused.value.status, refused.value.code) == (409, "B8035")
