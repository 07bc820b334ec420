"""Rows in the body of a push: a JSON array, one object, or one JSON value per line.

In: bytes and their media type. Out: the rows as the intake reads them. Raises `RequestError`. It runs in a thread
beside the event loop, in small steps, because the JSON parser blocks all other threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from json import JSONDecodeError
from typing import Any

import pyarrow as pa

from belvedere.api.failures import BAD_REQUEST, LIMIT_EXCEEDED, RequestError
from belvedere.catalog.inputs import Input
from belvedere.decode.json_objects import rows_of_array, rows_of_block
from belvedere.intake.claims import Claims
from belvedere.intake.request_rows import Pushed, read_rows
from belvedere.intake.typed_requests import pushed, typed_columns
from belvedere.schema import Column
from belvedere.values.json_numbers import DECODER, loads

JSON_TYPES = ("application/json",)
LINES_TYPES = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/jsonlines",
    "application/json-lines",
)
MIN_TYPED_BYTES = 8 << 10
"""Minimum bytes of a body that Arrow parses; starting its parser takes longer than smaller bodies."""
MAX_ROW_LENGTH = 250_000
"""Maximum characters of a row; parsing more in one step would block other threads."""
_SPACES = 100_000
"""Characters of white space that are skipped in one step."""
_CUT = 10
"""Maximum characters that remain of a word or number that the end of a window cuts."""
SPACE = b" \t\r\n"
_NO_SPACE = re.compile(r"[^ \t\n\r]")


def rows_of(table: Input, body: bytes, media: str, most_rows: int, claims: Claims) -> Pushed:
    """Return the rows of a body with at most `most_rows` rows. Arrow parses the body if all rows are valid; otherwise
    each row is parsed separately."""
    if len(body) >= MIN_TYPED_BYTES and (found := _typed(table, body, media, most_rows, claims)) is not None:
        return found
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(BAD_REQUEST, "the body is not UTF-8") from None
    if media in JSON_TYPES:
        try:
            found = elements(text, most_rows)
        except (ValueError, RecursionError):
            if "\n" not in text.strip():
                raise RequestError(
                    BAD_REQUEST, "the body is not JSON", f"send rows of {table.name}: [{{...}}, ...]"
                ) from None
        else:
            return read_rows(table, _not_too_many(found if isinstance(found, list) else [found], most_rows), claims)
    return read_rows(table, _not_too_many(_lines(text, most_rows), most_rows), claims)


def _typed(table: Input, body: bytes, media: str, most_rows: int, claims: Claims) -> Pushed | None:
    """Return the rows of a body as Arrow parses them; None if a row may be invalid."""
    columns, text = typed_columns(table), _stripped(body)
    if columns is None:
        return None
    found: list[pa.Table] = []
    is_array = media in JSON_TYPES and text.startswith(b"[")
    for part in _arrays(text) if is_array else _blocks(text):
        rows = (rows_of_array if is_array else _rows_of_lines)(part, columns)
        if rows is None or not rows.num_rows:
            return None
        found.append(rows)
    return pushed(table, found, claims) if found and sum(r.num_rows for r in found) <= most_rows else None


def _rows_of_lines(text: bytes, columns: Sequence[Column]) -> pa.Table | None:
    rows, left = rows_of_block(text, columns, only_known=True) or (None, None)
    return None if left is None or left.any() else rows


def _arrays(text: bytes) -> Iterator[bytes]:
    """Yield parts of an array that are arrays, at most as long as a row may be.

    Yield `b""`, which is not an array, for a part that cannot be split.
    """
    start = 1
    while len(text) - start > MAX_ROW_LENGTH:
        end = text.rfind(b"},", start, start + MAX_ROW_LENGTH) + 1
        if not end:
            break
        yield b"[%s]" % text[start:end]
        start = end + 1
    yield b"[%s" % text[start:] if len(text) - start <= MAX_ROW_LENGTH else b""


def _blocks(text: bytes) -> Iterator[bytes]:
    """Yield groups of lines, at most as long as a row may be; `b""` for a line that is longer."""
    start = 0
    while len(text) - start > MAX_ROW_LENGTH:
        end = text.rfind(b"\n", start, start + MAX_ROW_LENGTH + 1)
        yield text[start:end] if end > start else b""
        start = end + 1 if end > start else len(text)
    yield text[start:]


def _stripped(body: bytes) -> bytes:
    """Return the body without surrounding white space, which is skipped in steps."""
    start, end = 0, len(body)
    while start < end and not (part := body[start : start + _SPACES].lstrip(SPACE)):
        start += _SPACES
    start = min(end, start + min(_SPACES, end - start) - len(part)) if start < end else end
    while start < end and not (part := body[max(start, end - _SPACES) : end].rstrip(SPACE)):
        end -= _SPACES
    end = max(start, end - min(_SPACES, end - start) + len(part)) if start < end else start
    return body[start:end]


def elements(text: str, most: int) -> Any:
    """Return what `json.loads` returns, with an array's elements read one by one, up to one above the maximum."""
    place = _past_space(text, 0)
    if not text.startswith("[", place):
        if len(text) > MAX_ROW_LENGTH and "\n" in text.strip():
            raise ValueError("more than one row, each on its line")
        return loads(_not_too_long(text))
    first = _past_space(text, place + 1)
    if text.startswith("]", first):
        _end(text, first)
        return []
    found: list[Any] = []
    place = first
    for element, after in _read_elements(text, place):
        found.append(element)
        if len(found) > most:
            return found
        place = after
    _end(text, place)
    return found


def _read_elements(text: str, start: int) -> Iterator[tuple[Any, int]]:
    """Yield the elements of an array, each with the position behind it. Only a window of the text is parsed at a
    time."""
    while True:
        window = text[start : start + MAX_ROW_LENGTH]
        is_last, place = start + len(window) == len(text), 0
        while place < len(window):
            try:
                element, end = DECODER.raw_decode(window, place)
                after = _past_space(window, end)
                is_cut = window[after : after + 1] not in (",", "]") and after >= len(window) - _CUT
            except JSONDecodeError as error:
                is_cut = error.pos >= len(window) - _CUT or error.msg.startswith("Unterminated")
                if is_last or not is_cut:
                    raise
            if is_cut and not is_last:
                break
            yield element, start + after
            if not window.startswith(",", after):
                return
            place = _past_space(window, after + 1)
        else:
            if is_last:
                raise ValueError("the array does not end")
        if place == 0:
            raise _too_long()
        start = _past_space(text, start + place)


def _end(text: str, place: int) -> None:
    """Raise unless the array and the text end at `place`."""
    if not text.startswith("]", place) or _past_space(text, place + 1) != len(text):
        raise ValueError("the array does not end")


def _lines(text: str, most: int) -> list[Any]:
    """Return the JSON values of the lines, at most one above the maximum.

    A line that is not JSON stays a string, which is rejected later with its position.
    """
    found: list[Any] = []
    place = _past_space(text, 0)
    while place < len(text) and len(found) <= most:
        end = text.find("\n", place)
        line = text[place : end if end >= 0 else len(text)]
        try:
            found.append(loads(_not_too_long(line)))
        except (ValueError, RecursionError):
            found.append(line)
        place = _past_space(text, place + len(line))
    return found


def _past_space(text: str, place: int) -> int:
    """Return the position of the next character that is not JSON white space."""
    while place < len(text):
        found = _NO_SPACE.search(text, place, place + _SPACES)
        if found is not None:
            return found.start()
        place += _SPACES
    return len(text)


def _not_too_long(row: str) -> str:
    if len(row) > MAX_ROW_LENGTH:
        raise _too_long()
    return row


def _too_long() -> RequestError:
    message = f"a row has more than {MAX_ROW_LENGTH} characters"
    return RequestError(
        LIMIT_EXCEEDED, message, "store the long value elsewhere, and send a reference to it", status=413
    )


def _not_too_many(rows: list[Any], most: int) -> list[Any]:
    if len(rows) > most:
        raise RequestError(
            LIMIT_EXCEEDED, f"the body has more than {most} rows", "send the rows in several requests", status=413
        )
    return rows
