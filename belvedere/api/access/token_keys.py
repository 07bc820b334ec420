"""Keys that verify callers' tokens: a secret, a public key, or a set of public keys that changes (RFC 7517).

In: the text of a key, the path of a file, or a URL. Out: the keys that may have signed a token, by its `kid` and
algorithm. A key is used only with the algorithms of its kind, so a public key is never used as a secret. A separate
thread reads keys from files and URLs.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from jwt import PyJWK
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import PyJWTError

MIN_SECRET_BYTES = 32
"""Minimum length of a secret in bytes (RFC 7518, 3.2)."""
FETCH_SECONDS = 5.0
SET_BYTES = 1_000_000
PAUSE_SECONDS = 10.0
"""Minimum seconds between two reads for an unknown key, since anyone can invent tokens."""


class TokenKeys(ABC):
    """Keys by `kid` and algorithm. `version` changes with the keys."""

    version = 0
    is_ready = True

    @abstractmethod
    def of(self, kid: Any, algorithm: str) -> Iterator[Any]:
        """Return the keys that may have signed a token."""

    def may_find(self, kid: Any) -> bool:
        """Return whether `refresh` may find a key that is missing now."""
        return False

    def refresh(self) -> None:  # noqa: B027 - most keys never change
        """Read the keys again."""


class FixedKeys(TokenKeys):
    """The key, or set of keys, of the project file. Raises ValueError or an error of the library if it is not valid."""

    def __init__(self, text: str, algorithms: Sequence[str]):
        stripped = text.strip()
        if stripped.startswith("{"):
            found = json.loads(stripped)
            self._set: KeySet | None = KeySet(found if "keys" in found else {"keys": [found]}, algorithms)
            if not self._set:
                raise ValueError("the set has no key for these algorithms")
            return
        self._set = None
        self._keys = dict(_prepared(text, algorithms))
        if not self._keys:
            raise ValueError("the key has another type")

    def of(self, kid: Any, algorithm: str) -> Iterator[Any]:
        if self._set is not None:
            return self._set.of(kid, algorithm)
        return iter([self._keys[algorithm]] if algorithm in self._keys else [])


def _prepared(text: str, algorithms: Sequence[str]) -> Iterator[tuple[str, Any]]:
    known = get_default_algorithms()
    for name in algorithms:
        if name.startswith("HS") and len(text.encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"a secret needs at least {MIN_SECRET_BYTES} bytes")
        try:
            yield name, known[name].prepare_key(text)
        except (PyJWTError, ValueError, TypeError):
            continue


class KeySet:
    """A JWK set, reduced to keys for the given algorithms. Unknown members are ignored (RFC 7517, 5)."""

    def __init__(self, document: Any, algorithms: Sequence[str]):
        keys = document.get("keys") if isinstance(document, Mapping) else None
        if not isinstance(keys, list):
            raise ValueError("this is not a JWK set")
        self._keys = [found for k in keys if isinstance(k, Mapping) for found in _of_jwk(k, algorithms)]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def has(self, kid: Any) -> bool:
        """Return whether there is a key with that `kid`."""
        return any(k == kid for k, _, _ in self._keys)

    def of(self, kid: Any, algorithm: str) -> Iterator[Any]:
        """Return the keys with that `kid`; all keys if the token has no `kid`."""
        return (
            key for own, name, key in self._keys if name == algorithm and (kid is None or own == kid or own is None)
        )


def _of_jwk(jwk: Mapping[str, Any], algorithms: Sequence[str]) -> Iterator[tuple[Any, str, Any]]:
    """Yield `kid`, algorithm and key for each of the algorithms that a key supports."""
    if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ("verify",)):
        return
    for name in algorithms:
        if jwk.get("alg", name) != name:
            continue
        try:
            key = PyJWK(dict(jwk), name)
        except (PyJWTError, ValueError, TypeError, KeyError):
            continue
        if name.startswith("HS") and len(key.key) < MIN_SECRET_BYTES:
            continue
        yield jwk.get("kid"), name, key


class FetchedKeys(TokenKeys):
    """A JWK set in a file or at a URL. While it cannot be read, the keys of the last read remain valid."""

    def __init__(self, where: str, algorithms: Sequence[str], seconds: float):
        self._where, self._algorithms, self._seconds = where, algorithms, seconds
        self._keys = KeySet({"keys": []}, algorithms)
        self._lock = Lock()
        self._read_at = self._tried_at = float("-inf")
        if "://" not in where:
            self.refresh()
        else:
            self._refresh_aside()

    @property
    def is_ready(self) -> bool:  # type: ignore[override]
        return bool(self._keys)

    def of(self, kid: Any, algorithm: str) -> Iterator[Any]:
        if time.monotonic() - self._read_at > self._seconds and time.monotonic() - self._tried_at > min(
            PAUSE_SECONDS, self._seconds
        ):
            self._refresh_aside()
        return self._keys.of(kid, algorithm)

    def may_find(self, kid: Any) -> bool:
        unknown = not self._keys or (kid is not None and not self._keys.has(kid))
        return unknown and time.monotonic() - self._tried_at > (PAUSE_SECONDS if self._keys else 1.0)

    def refresh(self) -> None:
        with self._lock:
            self._tried_at = time.monotonic()
            try:
                found = KeySet(json.loads(self._text()), self._algorithms)
            except (OSError, URLError, ValueError, RecursionError):
                return
            self._keys, self._read_at = found, time.monotonic()
            self.version += 1

    def _refresh_aside(self) -> None:
        """Read the keys in a thread, without blocking requests."""
        self._tried_at = time.monotonic()
        Thread(target=self.refresh, name="keys", daemon=True).start()

    def _text(self) -> bytes:
        if "://" not in self._where:
            return Path(self._where).read_bytes()
        local = urlsplit(self._where).hostname in ("localhost", "127.0.0.1", "::1")
        opener = build_opener(ProxyHandler({})) if local else build_opener()
        with opener.open(Request(self._where, headers={"Accept": "application/json"}), timeout=FETCH_SECONDS) as answer:
            if urlsplit(answer.geturl()).scheme != urlsplit(self._where).scheme:
                raise ValueError("a redirect to another kind of address")
            found: bytes = answer.read(SET_BYTES + 1)
        if len(found) > SET_BYTES:
            raise ValueError("the set is too large")
        return found
