"""Reasons of rejected rows: their kinds, and their way through columns of texts."""

from __future__ import annotations

import copy
import pickle

import pyarrow as pa
import pytest

from belvedere.connectors.reading.long_lines import MAY_BE_LONG, is_beginning, too_long
from belvedere.connectors.reading.misfits import misfit_of, null_in
from belvedere.connectors.run_records import MAX_TEXT_LENGTH, RejectedRow, record_rejected
from belvedere.schema import Column
from belvedere.terminal.data_findings import LISTED, _refused
from belvedere.values.rejections import NEXT, THEN, Reason, RejectionKind, reason_of

QTY, PRICE = Column("qty", pa.int32()), Column("price", pa.decimal128(5, 2))
MISFIT = misfit_of(QTY, '"zwölf"')


def parts(reason: Reason) -> tuple[str, RejectionKind, str]:
    return str(reason), reason.kind, reason.general


@pytest.mark.parametrize(
    "reason", [MISFIT, null_in(QTY), Reason("odd"), too_long("the line"), Reason("", RejectionKind.KEY)]
)
def test_a_coded_reason_is_read_as_it_was(reason: Reason) -> None:
    assert parts(reason_of(reason.coded)) == parts(reason)
    assert parts(pickle.loads(pickle.dumps(reason))) == parts(copy.deepcopy(reason)) == parts(reason)


def test_several_reasons_of_a_row_are_one() -> None:
    both = reason_of(NEXT.join([Reason("odd").coded, MISFIT.coded, misfit_of(PRICE, "x").coded]))
    assert both == 'odd; column "qty": "zwölf" is not of type INT; column "price": x is not of type DECIMAL(5, 2)'
    assert both.general == 'odd; column "qty" is not of type INT; column "price" is not of type DECIMAL(5, 2)'
    assert both.kind is RejectionKind.MISFIT


@pytest.mark.parametrize(
    "value", [NEXT, THEN, f"a{NEXT}b{THEN}c{THEN}d", f"{NEXT}misfit", f"{THEN}{NEXT}{THEN}"], ids=str.encode
)
def test_a_value_may_have_the_separators_in_it(value: str) -> None:
    found = reason_of(misfit_of(QTY, value).coded)
    assert parts(found) == (f'column "qty": {value} is not of type INT', RejectionKind.MISFIT, MISFIT.general)


def test_a_text_that_is_no_code_is_a_reason() -> None:
    assert parts(reason_of("of another package")) == ("of another package", RejectionKind.OTHER, "of another package")


def test_a_rejected_row_has_the_kind_of_its_reason() -> None:
    row = RejectedRow("T", None, 1, None, misfit_of(QTY, "\ud800"))
    assert parts(row.why) == (r'column "qty": \ud800 is not of type INT', RejectionKind.MISFIT, MISFIT.general)
    plain = RejectedRow("T", None, 1, None, "x" * (MAX_TEXT_LENGTH + 1))
    assert parts(plain.why) == ("x" * MAX_TEXT_LENGTH, RejectionKind.OTHER, "x" * MAX_TEXT_LENGTH)
    assert record_rejected([row, plain], 1)["reason"].to_pylist() == [row.reason, plain.reason]


def test_only_what_is_too_long_is_a_beginning() -> None:
    assert all(is_beginning(str(too_long(what))) for what in MAY_BE_LONG)
    assert not is_beginning(misfit_of(QTY, f"'{too_long('the line')}'"))


def test_findings_are_of_reasons_without_their_values() -> None:
    """A value that reads like another reason has no part in what is advised."""
    cited = [misfit_of(QTY, "cannot be read"), misfit_of(QTY, "is NULL: is not JSON")]
    found = list(_refused([RejectedRow("T", "a.json", n, "{}", r) for n, r in enumerate([null_in(QTY), *cited])], 5))
    assert [(f.what, f.rows, f.shown) for f in found] == [
        (MISFIT.general, 2, MISFIT.general),
        ('column "qty" is NULL', 1, 'column "qty" is NULL'),
        ("further rows, whose text is not stored", 2, "further rows, whose text is not stored"),
    ]
    assert "declare the column" in found[0].hint
    assert "primary_key" in found[1].hint
    (other,) = _refused([RejectedRow("T", None, None, None, Reason("is Greek: all of it", general="is Greek"))], 1)
    assert (other.what, other.shown, other.hint) == ("is Greek", "is Greek: all of it", LISTED)
