"""Errors of database drivers as diagnostics that say what to do.

In: a driver's exception, the store's URL, a dialect's rules. Out: a `BelvedereError` with a code B7xxx. It imports no
driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from belvedere.errors import BelvedereError, fail


@dataclass(frozen=True)
class FaultRule:
    """Which of a driver's texts, as a regular expression, means what."""

    pattern: str
    code: str
    message: str
    hint: str | None = None


def fault(error: Exception, rules: tuple[FaultRule, ...], url: str, doing: str = "") -> BelvedereError:
    """The diagnostic for a driver's error; B7099 where no rule knows the text."""
    text = " ".join(str(error).split())
    shown = without_password(url)
    for rule in rules:
        if re.search(rule.pattern, text, re.IGNORECASE):
            return fail(rule.code, f"{rule.message}: {shown}{doing}", hint=rule.hint, detail=text)
    return fail("B7099", f"the store failed: {shown}{doing}", detail=text)


def is_transient(error: BelvedereError) -> bool:
    """Whether trying again a little later may help."""
    return all(d.code in ("B7004", "B7005") for d in error.diagnostics)


def is_unreachable(error: Exception) -> bool:
    """Return whether the text of a task's error says that its process cannot reach the database."""
    return (
        isinstance(error, OSError | ModuleNotFoundError)
        or re.search(r"\bB70(05|20)\b|ModuleNotFoundError", str(error)) is not None
    )


def without_password(url: str) -> str:
    """A URL that may be shown."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", re.sub(r"(password=)[^&\s]*", r"\1***", url))
