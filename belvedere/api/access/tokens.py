"""Tokens of callers: JSON Web Tokens (RFC 7519), signed by an issuer that `[api.jwt]` of the project file trusts.

In: the rules of the project file, a token. Out: its claims. A token is valid if it has not expired, and its issuer and
audience match the rules. One of the keys must have signed it, by an algorithm that both the rules and the key allow. Of
the header only `kid` selects a key: `jku`, `jwk` and `x5u` are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from belvedere.api.access.token_keys import FetchedKeys, FixedKeys, TokenKeys
from belvedere.errors import fail

LEEWAY = 30.0
"""Maximum difference in seconds between this clock and the issuer's."""
REMEMBERED = 1_000
_CHECKS: Any = {"verify_sub": False, "verify_jti": False}


@dataclass(frozen=True)
class TokenRules:
    """Rules of `[api.jwt]`.

    `key` is a secret for HS256 and its variants, otherwise a public key as PEM, JWK or JWK set. `jwks` is the path or
    URL of a JWK set, which is read again after `jwks_seconds`. `role_claim` is the path of the claim with the caller's
    role.
    """

    key: str | None = None
    algorithms: tuple[str, ...] = ("HS256",)
    issuer: str | None = None
    audience: str | None = None
    jwks: str | None = None
    jwks_seconds: float = 300.0
    leeway: float = LEEWAY
    role_claim: tuple[str, ...] = ("role",)
    default_role: str | None = None


def token_rules(settings: Mapping[str, Any]) -> TokenRules:
    """Return the rules of a project file's `[api.jwt]`."""
    by_default = ["HS256"] if "key" in settings else ["RS256", "ES256"]
    algorithms = settings.get("algorithms") or ([settings["algorithm"]] if "algorithm" in settings else by_default)
    same = ("key", "issuer", "audience", "jwks", "jwks_seconds", "default_role")
    return TokenRules(
        algorithms=tuple(algorithms),
        leeway=settings.get("leeway_seconds", LEEWAY),
        role_claim=tuple(settings.get("role_claim", "role").split(".")),
        **{n: settings[n] for n in same if n in settings},
    )


class TokenVerifier:
    """Verifies tokens by the rules. Raises B8014 if their key cannot be read."""

    def __init__(self, rules: TokenRules):
        self.rules = rules
        self._keys: TokenKeys = _keys(rules)
        self._known: dict[str, Mapping[str, Any]] = {}
        self._version = -1

    def claims(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token; None if it is not valid."""
        if self._version != self._keys.version:  # a removed key is no longer valid
            self._known, self._version = {}, self._keys.version
        found = self._known.get(token)
        if found is None:
            found = self._verified(token)
            if found is not None and len(self._known) < REMEMBERED:
                self._known[token] = found
            elif found is not None:
                self._known = {token: found}
        expires = None if found is None else found.get("exp")
        return found if expires is None or time.time() < expires + self.rules.leeway else None

    def lacks_key(self, token: str) -> bool:
        """Return whether a token names an unknown key that a refresh may find."""
        header = _header(token)
        return header.get("alg") in self.rules.algorithms and self._keys.may_find(header.get("kid"))

    def refresh(self) -> None:
        """Read the keys of a file or URL again, and wait for them."""
        self._keys.refresh()

    @property
    def is_ready(self) -> bool:
        """Return whether any keys have been read."""
        return self._keys.is_ready

    def _verified(self, token: str) -> Mapping[str, Any] | None:
        header = _header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self.rules.algorithms:
            return None
        for key in self._keys.of(kid, algorithm):
            try:
                return self._decoded(token, key, algorithm)
            except (PyJWTError, ValueError, TypeError, KeyError, RecursionError):
                continue
        return None

    def _decoded(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        rules = self.rules
        needed = [n for n, v in (("iss", rules.issuer), ("aud", rules.audience)) if v is not None]
        options: Any = {**_CHECKS, "require": needed, "verify_aud": rules.audience is not None}
        found: Mapping[str, Any] = jwt.decode(
            token, key, [algorithm], options, audience=rules.audience, issuer=rules.issuer, leeway=rules.leeway
        )
        if not isinstance(found.get("exp", 0), int | float):
            raise ValueError("no time")
        return found


def _header(token: str) -> Mapping[str, Any]:
    try:
        return jwt.get_unverified_header(token)
    except (PyJWTError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def _keys(rules: TokenRules) -> TokenKeys:
    if rules.jwks is not None:
        keys = FetchedKeys(rules.jwks, rules.algorithms, rules.jwks_seconds)
        if "://" not in rules.jwks and not keys.is_ready:
            hint = f"write a JWK set with a public key for {' or '.join(rules.algorithms)} into the file"
            raise fail("B8014", f"the file `{rules.jwks}` has no keys", hint=hint)
        return keys
    try:
        return FixedKeys(rules.key or "", rules.algorithms)
    except (PyJWTError, ValueError, TypeError, KeyError) as error:
        hint = "write a secret for HS256, or the public key as PEM or JWK and its `algorithm`, such as RS256"
        message = f"the `key` of [api.jwt] is not a key for {' or '.join(rules.algorithms)}"
        raise fail("B8014", message, detail=str(error), hint=hint) from None


def role_named(claims: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the role in a token's claims, or None if there is none."""
    found: Any = claims
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found
