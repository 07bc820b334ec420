"""Limits of one request.

In: nothing. Out: `Limits`, all on by default. Each limit that a request exceeds is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from belvedere.api.failures import LIMIT_EXCEEDED, RequestError
from belvedere.store.read.query import LIMIT_DEFAULT, LIMIT_MOST

FEW_VALUES = 1_000
"""Maximum number of values of a request that are read on the event loop; they take about 5 ms."""
NESTED_MOST = 100
"""Maximum nesting of brackets, selections or values; recursive code has stack for this depth."""


@dataclass(frozen=True)
class Limits:
    """Limits of a request.

    - `size`: bytes of the request; `tokens`: tokens of its text; `depth`: levels of lists and objects.
    - `fields`: fields with fragments expanded; `aliases`: aliases; `values`: values of all arguments, with variables.
    - `cost`: rows times fields that it may read. A list without `limit` counts as `assumed_rows`, an aggregate or a
      `totalCount` as `aggregated_rows`.
    - `answer`: bytes of the answer; `seconds`: database time.
    - `push`: bytes of a request to `/streams`; `push_rows`: its rows.
    - `rows`: rows of a list without `limit`; `most_rows`: rows of any list.
    """

    rows: int = LIMIT_DEFAULT
    most_rows: int = LIMIT_MOST
    introspection: bool = True

    size: int = 100_000
    tokens: int = 5_000
    depth: int = 15
    fields: int = 2_000
    aliases: int = 100
    values: int = 5_000
    cost: int = 5_000_000
    assumed_rows: int = 10
    aggregated_rows: int = 100
    answer: int = 32_000_000
    seconds: float = 5.0
    push: int = 16_000_000
    push_rows: int = 500_000


SETTINGS = {
    "limit": "rows",
    "max_limit": "most_rows",
    "max_depth": "depth",
    "max_cost": "cost",
    "timeout_seconds": "seconds",
    "introspection": "introspection",
    "max_push_bytes": "push",
    "max_push_rows": "push_rows",
}
"""Names of limits in `[api]` of the project file."""


def limits_of(settings: Mapping[str, Any]) -> Limits:
    """Return the limits of a project file's `[api]`; absent ones keep their defaults."""
    found = Limits(**{SETTINGS[key]: value for key, value in settings.items() if key in SETTINGS})
    return replace(found, rows=min(found.rows, found.most_rows))


def check_variables(variables: Mapping[str, Any], limits: Limits) -> None:
    """Raise if a request's variables are too many or nested too deeply."""
    number = 0
    for depth, count in enumerate(_values_by_depth(variables), 1):
        if depth > NESTED_MOST:
            raise RequestError(
                LIMIT_EXCEEDED, f"the variables are nested more than {NESTED_MOST} levels deep", "nest less"
            )
        number += count
        if number > limits.values:
            raise too_many_values(limits)


def are_many(variables: Mapping[str, Any]) -> bool:
    """Return whether a request has so much in its variables that a thread must read them, not the event loop."""
    return any(number > FEW_VALUES for number in accumulate(_values_by_depth(variables)))


def too_many_values(limits: Limits) -> RequestError:
    """Return the error of a request with too many values."""
    return RequestError(LIMIT_EXCEEDED, f"more than {limits.values} values in one request", "split the request")


def _values_by_depth(variables: Mapping[str, Any]) -> Iterator[int]:
    """Yield the number of values at each depth, without recursion."""
    level: list[Any] = list(variables.values())
    while level:
        yield len(level)
        level = [v for value in level if isinstance(value, dict | list) for v in _inside(value)]


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
