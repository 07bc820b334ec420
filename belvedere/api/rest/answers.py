"""Body and headers of a REST answer.

In: the JSON of a read, its request and the accepted media types. Out: a body (JSON from the database, one object, or
CSV) and headers: the next page (`Link`), and the number of rows (`Content-Range`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from belvedere.api.failures import BAD_REQUEST, NOT_FOUND, RequestError
from belvedere.api.rest.reads import CURSOR, MORE, TOTAL
from belvedere.api.rest.requests import ROWS, RestRequest, name_of

JSON, CSV, OBJECT = "application/json", "text/csv", "application/vnd.pgrst.object+json"
MEDIA = (JSON, CSV, OBJECT)
_ONE, _LIST = b'{"%b":' % ROWS.encode(), b"["
_BESIDE = rf'(?:"{CURSOR}":(?:"([0-9A-F]*)"|null),)?"{MORE}":(true|false),(?:"{TOTAL}":([0-9]+),)?'
_PAGE = re.compile(rf'\{{"{ROWS}":\{{{_BESIDE}"{ROWS}":'.encode())


@dataclass(frozen=True)
class AnswerRows:
    """The rows of an answer as JSON, the cursor of the last row, whether there are more, and the requested total
    number."""

    body: bytes
    cursor: str | None = None
    more: bool = False
    total: int | None = None


def rows_of(data: bytes) -> AnswerRows:
    """Return the parts of the store's answer, without parsing the rows."""
    found = _PAGE.match(data)
    if found is None:
        return AnswerRows(data[len(_ONE) : -1])
    cursor, more, total = found.groups()
    text = None if cursor is None else cursor.decode()
    return AnswerRows(data[found.end() : -2], text, more == b"true", None if total is None else int(total))


def media_of(accept: str) -> str:
    """Return the media type of the answer: the supported one with the client's highest preference."""
    requested: list[tuple[float, str]] = []
    for part in accept.split(",") if accept.strip() else ["*/*"]:
        name, *parameters = (p.strip().lower() for p in part.split(";"))
        requested.append((_quality(parameters), name))
    for quality, name in sorted(requested, key=lambda w: -w[0]):
        found = JSON if name in ("*/*", "application/*") else CSV if name == "text/*" else name
        if quality > 0 and found in MEDIA:
            return found
    raise RequestError(BAD_REQUEST, "answers are JSON or CSV", f"accept {', '.join(MEDIA)}", status=406)


def _quality(parameters: list[str]) -> float:
    given = next((p[2:] for p in parameters if p.startswith("q=")), "1")
    try:
        return float(given)
    except ValueError:
        return 0.0


def body_of(request: RestRequest, rows: AnswerRows, media: str) -> bytes:
    """Return the body in a media type. Raises if the client requests one object and there is not exactly one row."""
    if request.one and rows.body == b"null":
        raise RequestError(NOT_FOUND, f"{name_of(request.source)} has no row with this key", status=404)
    if media == JSON:
        return rows.body
    if media == CSV:
        return _table(request, rows.body)
    if request.one:
        return rows.body
    found = json.loads(rows.body)
    if len(found) != 1:
        message = f"one row was asked for, there {'are more' if found else 'is none'}"
        raise RequestError(BAD_REQUEST, message, "filter by a key, or accept a list", status=406)
    return json.dumps(found[0], ensure_ascii=False).encode()


def _table(request: RestRequest, body: bytes) -> bytes:
    """Return rows as CSV (RFC 4180), with a header line.

    Numbers are written as in JSON, nested values as JSON, NULL as an empty field.
    """
    found = json.loads(body, parse_float=_Number, parse_int=_Number)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(request.names)
    for row in [found] if request.one else found:
        writer.writerow([_cell(row[name]) for name in request.names])
    return text.getvalue().encode()


class _Number(str):
    """A number in the text form of JSON."""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a nested value with numbers in place of their texts."""
    if isinstance(value, _Number):
        return json.loads(value)
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def headers_of(path: str, request: RestRequest, rows: AnswerRows) -> dict[str, str]:
    """Return headers with the next page's URL, and with the range of these rows in the total."""
    headers: dict[str, str] = {}
    following = _next(request, rows)
    if following is not None:
        query = [(name, value) for name, value in request.pairs if name not in ("after", "offset")]
        headers["link"] = f'<{path}?{urlencode([*query, following])}>; rel="next"'
    if rows.total is not None:
        headers |= {
            "content-range": f"{_range(request, rows, rows.total)}/{rows.total}",
            "preference-applied": "count=exact",
        }
    elif request.ranged:
        until = (request.offset or 0) + (0 if rows.more else len(json.loads(rows.body)))
        headers["content-range"] = f"{_range(request, rows, until)}/*"
    return headers


def status_of(request: RestRequest, rows: AnswerRows) -> int:
    """Return 206 if the rows are known to be a part, else 200."""
    partial = rows.total is not None and (rows.more or bool(request.offset) or request.after is not None)
    return 206 if partial else 200


def _next(request: RestRequest, rows: AnswerRows) -> tuple[str, str] | None:
    if not rows.more or not request.limit:
        return None
    if request.offset is not None:
        return ("offset", str(request.offset + request.limit))
    return None if rows.cursor is None else ("after", rows.cursor)


def _range(request: RestRequest, rows: AnswerRows, total: int) -> str:
    """Return the positions of the first and the last row; `*` for pages by cursor, and without rows."""
    start = 0 if request.offset is None and request.after is None else request.offset
    if start is None:
        return "*"
    end = start + request.limit if rows.more else total
    return f"{start}-{end - 1}" if end > start else "*"
