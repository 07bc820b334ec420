"""The parameters of a query string, grouped by the list that each applies to.

In: a query string. Out: `Said`s: `limit=5` applies to the rows themselves, `hours.limit=5` to the rows of the selected
relationship `hours`. It does not use the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from belvedere.api.failures import LIMIT_EXCEEDED, RequestError
from belvedere.api.limits import Limits
from belvedere.api.rest.grammar import WORDS, read_path, unreadable

Pairs = tuple[tuple[str, str], ...]
_RANGE = re.compile(r"(?:items=)?(\d{1,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True)
class UrlParameter:
    """One parameter. `key` is its spelling; a `quoted` name is always a column; `negated` is `not.and`."""

    key: str
    name: str
    value: str
    quoted: bool = False
    negated: bool = False

    @property
    def is_group(self) -> bool:
        return self.name in WORDS and not self.quoted

    def is_word(self, words: tuple[str, ...]) -> bool:
        return self.name in words and not self.quoted


@dataclass
class Said:
    """Parameters of one list, and those of its selected relationships by name in the answer."""

    own: list[UrlParameter] = field(default_factory=list)
    inner: dict[str, Said] = field(default_factory=dict)


def pairs_of(query: bytes, limits: Limits) -> Pairs:
    """Return names and values of a query string, in order."""
    if len(query) > limits.size:
        raise RequestError(LIMIT_EXCEEDED, f"the request has more than {limits.size} characters", status=414)
    try:
        found = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=limits.fields)
    except UnicodeDecodeError:
        raise unreadable("?", "the query string is not percent-encoded UTF-8") from None
    except ValueError:
        raise RequestError(
            LIMIT_EXCEEDED, f"more than {limits.fields} parameters in one request", "use fewer parameters"
        ) from None
    return tuple(found)


def range_of(unit: str, asked: str) -> bytes:
    """Return `Range: 10-19` as the equivalent query parameters.

    Other units than rows return nothing: RFC 9110 (14.2) lets a server ignore them.
    """
    found = _RANGE.fullmatch(asked.strip())
    if found is None or unit.strip().lower() not in ("", "items"):
        return b""
    first, last = int(found[1]), found[2]
    if last and int(last) < first:
        raise unreadable("Range", "its end is before its start", "write `Range: 0-9` for ten rows")
    return f"offset={first}{f'&limit={int(last) - first + 1}' if last else ''}".encode()


def sorted_parameters(pairs: Pairs) -> Said:
    """Return the parameters by the list that they apply to."""
    root = Said()
    for key, value in pairs:
        names, quoted = read_path(key)
        negated = len(names) > 1 and names[-2] == "not" and names[-1] in WORDS and not quoted
        said = root
        for name in names[: -2 if negated else -1]:
            said = said.inner.setdefault(name, Said())
        said.own.append(UrlParameter(key, names[-1], value, quoted, negated))
    return root


def words_of(parameters: list[UrlParameter]) -> dict[str, str]:
    """Return the values of words such as `limit`. Raises if one occurs twice."""
    found: dict[str, str] = {}
    for each in parameters:
        if each.name in found:
            raise unreadable(each.key, "it is given twice", "give it once")
        found[each.name] = each.value
    return found
