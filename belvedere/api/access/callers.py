"""Callers: the claims of their tokens, their role, and their rights.

In: claims, a role's name, rights. Out: a `Caller`, which is the mapping of the claims. The gate authenticates
(`belvedere.api.access.gate`); the catalog's grants define which rows and columns a role sees.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from belvedere.api.failures import NOT_ALLOWED, RequestError
from belvedere.catalog.access import ALL_RIGHTS, Grant, Right
from belvedere.catalog.catalog import Catalog
from belvedere.intake.claims import Claims

NO_GRANT = Grant("", frozenset())
"""The grant of a caller without a role, in a project that has roles."""


class Caller(Mapping[str, Any]):
    """The claims of a caller. With `role` None the caller sees everything."""

    __slots__ = ("claims", "rights", "role")

    def __init__(self, claims: Claims, role: str | None = None, rights: frozenset[Right] = ALL_RIGHTS):
        self.claims, self.role, self.rights = claims, role, rights

    def __getitem__(self, name: str) -> Any:
        return self.claims[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def __bool__(self) -> bool:
        return True  # a caller without claims is still a caller


def check_right(claims: Claims, right: Right) -> None:
    """Raise if a caller does not have a right."""
    if isinstance(claims, Caller) and right not in claims.rights:
        raise RequestError(NOT_ALLOWED, f"this caller is not allowed to {_DEED[right]}", _HINT, status=403)


def own_key(claims: Claims, key: str | None) -> str | None:
    """Return the key of a push, qualified by its caller: callers cannot see or reuse each other's keys."""
    if key is None or not isinstance(claims, Caller) or claims.role is None:
        return key
    lasting = {n: v for n, v in claims.items() if n not in _PASSING}
    whose = {n: claims[n] for n in ("iss", "sub") if n in claims} if "sub" in claims else lasting
    mark = hashlib.sha256(json.dumps([claims.role, whose], sort_keys=True, default=str).encode()).hexdigest()
    return f"{key}@{mark[:16]}"


_PASSING = ("exp", "iat", "nbf", "jti")
"""Claims that differ in the next token of the same caller."""
_DEED = {Right.READ: "read", Right.PUSH: "push rows", Right.STATUS: "see the status", Right.ADMIN: "administer the run"}
_HINT = "use another token; belvedere.toml lists the rights of each role"


def grant_of(catalog: Catalog, claims: Claims) -> Grant | None:
    """Return the grant of a caller, or None if the caller sees everything.

    A caller without a known role sees nothing if there are roles.
    """
    if isinstance(claims, Caller):
        return None if claims.role is None else catalog.access.grants.get(claims.role, NO_GRANT)
    return NO_GRANT if catalog.access.grants else None
