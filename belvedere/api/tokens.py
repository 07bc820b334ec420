"""Tokens of callers: JSON Web Tokens (RFC 7519), signed by somebody whom `[api.jwt]` of the project file trusts.

In: the rules of the project file, a token. Out: its claims. A token counts if its signature is of the one algorithm that the rules say, if
it is not over, and if issuer and audience are those of the rules. No key is fetched from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, import_key
from joserfc.jwt import JWTClaimsRegistry

from belvedere.errors import fail

LEEWAY = 30
"""Seconds by which the clock of who signs may differ."""
REMEMBERED = 1_000
_FAMILIES = {"ES": "EC", "RS": "RSA", "PS": "RSA"}
LEAST_SECRET = 32
"""Bytes of a secret at least (RFC 7518, 3.2)."""


@dataclass(frozen=True)
class TokenRules:
    """`[api.jwt]`. `key` is a secret for HS256 ..., else a public key as PEM, JWK or JWK set."""

    key: str
    algorithm: str = "HS256"
    issuer: str | None = None
    audience: str | None = None


class TokenVerifier:
    """Verifies tokens by the rules. Raises B8014 where their key cannot be read."""

    def __init__(self, rules: TokenRules):
        key = _key(rules)
        wanted: dict[str, Any] = {"iss": rules.issuer, "aud": rules.audience}
        self._options: Any = {n: {"essential": True, "value": v} for n, v in wanted.items() if v is not None}

        @lru_cache(REMEMBERED)
        def signed(token: str) -> Mapping[str, Any]:
            return jwt.decode(token, key, algorithms=[rules.algorithm]).claims

        self._signed = signed

    def claims(self, token: str) -> Mapping[str, Any] | None:
        """The claims of a token; None where it does not count."""
        try:
            found = self._signed(token)
            JWTClaimsRegistry(leeway=LEEWAY, **self._options).validate(dict(found))
        except (JoseError, ValueError, TypeError, KeyError):
            return None
        return found


def _key(rules: TokenRules) -> Any:
    symmetric, text = rules.algorithm.startswith("HS"), rules.key.strip()
    try:
        if text.startswith("{"):
            found = json.loads(text)
            return KeySet.import_key_set(found) if "keys" in found else import_key(found)
        if symmetric and len(rules.key.encode()) < LEAST_SECRET:
            raise ValueError(f"a secret has {LEAST_SECRET} bytes at least")
        family: Any = "oct" if symmetric else _FAMILIES.get(rules.algorithm[:2], "OKP")
        return import_key(rules.key, family)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        hint = "write a secret for HS256, or the public key as PEM or JWK and its `algorithm`, such as RS256"
        raise fail("B8014", f"the `key` of [api.jwt] is no key for {rules.algorithm}", detail=str(error), hint=hint) from None
