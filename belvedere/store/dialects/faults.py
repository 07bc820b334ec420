"""Errors of database drivers as diagnostics with a remedy.

In: a driver's exception, the store's URL, a dialect's rules. Out: a `BelvedereError` with a code B7xxx. It imports no
driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from belvedere.errors import BelvedereError, fail


@dataclass(frozen=True)
class FaultRule:
    """The meaning of a driver's error text, matched by a regular expression."""

    pattern: str
    code: str
    message: str
    hint: str | None = None


def fault(error: Exception, rules: tuple[FaultRule, ...], url: str, doing: str = "") -> BelvedereError:
    """Return the diagnostic for a driver's error, or B7099 if no rule matches the text."""
    text = " ".join(str(error).split())
    shown = without_password(url)
    for rule in rules:
        if re.search(rule.pattern, text, re.IGNORECASE):
            return fail(rule.code, f"{rule.message}: {shown}{doing}", hint=rule.hint, detail=text)
    return fail("B7099", f"the store failed: {shown}{doing}", detail=text)


def is_transient(error: BelvedereError) -> bool:
    """Return whether a retry a little later may succeed."""
    return all(d.code in ("B7004", "B7005") for d in error.diagnostics)


def is_unreachable(error: Exception) -> bool:
    """Return whether a task's error text says that its process cannot reach the database."""
    return (
        isinstance(error, OSError | ModuleNotFoundError)
        or re.search(r"\bB70(05|20)\b|ModuleNotFoundError", str(error)) is not None
    )


def without_password(url: str) -> str:
    """Return a URL without its password, for display."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", re.sub(r"(password=)[^&\s]*", r"\1***", url))
