"""Rules for values of the project file: a rule for each key of `[run]`, `[optimize]`, `[api]` and their subsections.

In: a value. Out: whether it fits, and a description of the expected value. `belvedere.project.settings` reads the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.errors import fail

MAX_NUMBER = 2**31 - 1


@dataclass(frozen=True)
class Requirement:
    """Requirement of a value: a description, and a test."""

    what: str
    fits: Callable[[Any], bool]


def _whole(least: int, most: int) -> Requirement:
    what = f"a whole number from {least:,} to {most:,}" if most < MAX_NUMBER else f"a whole number from {least:,} on"
    return Requirement(what, lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most)


def _text(what: str, pattern: str) -> Requirement:
    return Requirement(what, lambda v: isinstance(v, str) and re.fullmatch(pattern, v) is not None)


def _are_origins(value: Any) -> bool:
    """Return whether a value is one origin, a list of origins, or `*` for all."""
    each = value if isinstance(value, list) else [value]
    return all(isinstance(o, str) and re.fullmatch(r"\*|[a-z][a-z0-9+.-]*://[^/?#\s]+", o) for o in each)


_SHORT = {"us": 1e-6, "ms": 1e-3, "millisecond": 1e-3, "s": 1.0, "second": 1.0, "m": 60.0, "minute": 60.0}
_UNITS = {n: seconds for n, seconds in _SHORT.items() if n != "us"} | {
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86_400.0,
    "day": 86_400.0,
}


def seconds_in(text: str) -> float | None:
    """Return a time like `20 ms` in seconds; None if the text is not a time. Units are microseconds to minutes."""
    found = _seconds(text, _SHORT)
    return found if found else None


def seconds_of(text: str) -> float:
    """Return a time like `500 ms` or `2 days` in seconds. Units are milliseconds to days. Raises B9111 for other
    texts."""
    found = _seconds(text, _UNITS)
    if found is None:
        raise fail(
            "B9111", f'"{text}" is not a time between epochs', hint='write [spark] trigger = "500 ms" or "2 seconds"'
        )
    return found


def _seconds(text: str, units: Mapping[str, float]) -> float | None:
    """Return a number and a unit, in singular or plural, as seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower())
    unit = units.get(found[2], units.get(found[2].removesuffix("s"))) if found else None
    return None if found is None or unit is None else float(found[1]) * unit


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.001 <= value <= 86_400


def _are_headers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, str) and re.fullmatch(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+", v) for v in value
    )


ADDRESS = r"(s3|s3a|s3n|gs|gcs|hdfs|abfs|abfss|file)://[^@]+"  # of a folder elsewhere, without credentials
RUN_RULES: Mapping[str, Requirement] = {
    "driver_memory_mb": _whole(1, MAX_NUMBER),
    "state": _text('the path of a folder, or "s3://bucket/folder" without credentials', rf"{ADDRESS}|(?!\w+://).+"),
    "scratch": _text("the path of a folder that all machines mount", r"(?!\w+://).+"),
    "state_cache_mb": _whole(1, MAX_NUMBER),
    "retain": _text(
        'a time such as "10 minutes"', r"\s*\d+(\.\d+)?\s*(ms|s|m|h|d|(millisecond|second|minute|hour|day)s?)\s*"
    ),
    "ahead": _text(
        'a time such as "1 day"', r"\s*\d+(\.\d+)?\s*(ms|s|m|h|d|(millisecond|second|minute|hour|day)s?)\s*"
    ),
    "standby": Requirement("true or false", lambda v: isinstance(v, bool)),
    "lease": Requirement(
        'a time of one second or more such as "30 s"', lambda v: isinstance(v, str) and (seconds_in(v) or 0) >= 1
    ),
}
OPTIMIZE_RULES: Mapping[str, Requirement] = {
    "latency": Requirement('a time such as "50 ms"', lambda v: isinstance(v, str) and seconds_in(v) is not None),
    "freshness": Requirement('a time such as "5 s"', lambda v: isinstance(v, str) and seconds_in(v) is not None),
    "rate": Requirement("a number of requests a second", _is_rate),
    "at_start": Requirement("true or false", lambda v: isinstance(v, bool)),
}
"""`[optimize]`: expected latency and rate of requests for views without hints, and whether each start chooses
placement."""
API_RULES: Mapping[str, Requirement] = {
    "host": _text('an address or the name of a host, such as "127.0.0.1"', r"[^\s/]+"),
    "port": _whole(0, 65_535),
    "limit": _whole(1, MAX_NUMBER),
    "max_limit": _whole(1, MAX_NUMBER),
    "max_depth": _whole(1, 100),
    "max_cost": _whole(1, 2**63 - 1),
    "max_push_bytes": _whole(1, MAX_NUMBER),
    "max_push_rows": _whole(1, MAX_NUMBER),
    "max_requests_per_address": _whole(1, MAX_NUMBER),
    "max_requests_per_token": _whole(1, MAX_NUMBER),
    "store_connections": _whole(1, 1_000),
    "timeout_seconds": Requirement("a number of seconds from 0.001 to 86,400", _are_seconds),
    "cors_origins": Requirement('a list of origins such as ["https://app.example"], without a path', _are_origins),
    "cors_headers": Requirement('a list of names of headers such as ["X-Team"]', _are_headers),
    "longs": Requirement('"number" or "text"', lambda v: v in ("number", "text")),
    "introspection": Requirement("true or false", lambda v: isinstance(v, bool)),
    "token": _text("a text of printable ASCII characters without spaces", r"[!-~]+"),
    "jwt": Requirement("a table: write `[api.jwt]` and its keys below", lambda v: isinstance(v, dict)),
    "tokens": Requirement("tables: write `[api.tokens.NAME]` and its keys below", lambda v: isinstance(v, dict)),
    "anonymous_role": _text("the name of a role", r".+"),
}
_ALGORITHM = r"(HS|RS|PS|ES)(256|384|512)|EdDSA"


def _are_algorithms(value: Any) -> bool:
    """Return whether a value is a non-empty list of algorithms that does not mix secrets with public keys."""
    named = isinstance(value, list) and value and all(isinstance(v, str) and re.fullmatch(_ALGORITHM, v) for v in value)
    return bool(named) and len({v.startswith("HS") for v in value}) == 1


JWT_RULES: Mapping[str, Requirement] = {
    "key": _text("a secret, or a public key as PEM, JWK or JWK set", r"(?s).+"),
    "jwks": _text(
        'the path of a file with a JWK set, or its address: "https://login.example/keys.json"',
        r"https://\S+|http://(localhost|127\.0\.0\.1|\[::1\])[:/]\S*|(?!\w+://).+",
    ),
    "jwks_seconds": Requirement("a number of seconds from 0.001 to 86,400", _are_seconds),
    "algorithm": _text('the name of a signature\'s algorithm, such as "HS256" or "RS256"', _ALGORITHM),
    "algorithms": Requirement(
        'a list of algorithms of one kind, all with a secret (HS256) or none: ["RS256", "ES256"]', _are_algorithms
    ),
    "issuer": _text("a text", r".+"),
    "audience": _text("a text", r".+"),
    "leeway_seconds": Requirement("a number of seconds from 0 to 600", lambda v: _is_number(v) and 0 <= v <= 600),
    "role_claim": _text('the name of a claim, such as "role" or "realm_access.role"', r"[^.\s]+(\.[^.\s]+)*"),
    "default_role": _text("the name of a role", r".+"),
}
"""`[api.jwt]`: the rules for accepted tokens."""
TOKEN_RULES: Mapping[str, Requirement] = {
    "token": API_RULES["token"],
    "role": _text("the name of a role", r".+"),
}
"""`[api.tokens.NAME]`: an additional fixed token."""
