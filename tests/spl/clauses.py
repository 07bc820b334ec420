"""Window clauses as text, for the tests of the kernels: no language is needed to read them."""

from __future__ import annotations

import re

from belvedere.plan.operators.spl_windows import (
    Count,
    Delta,
    Forgetting,
    Interval,
    PartitionAge,
    PartitionCount,
    Policy,
    Punctuation,
    Sliding,
    SplWindow,
    Time,
    Tumbling,
    TupleCount,
)

CALL = re.compile(r"(\w+)(?:\(([^)]*)\))?")


def micros(seconds: str | float) -> int:
    return round(float(seconds) * 1_000_000)


def clause(text: str) -> SplWindow:
    """The window that a clause says, options behind the policies as words."""
    calls = [(m[1], [a.strip() for a in (m[2] or "").split(",")]) for m in CALL.finditer(text)]
    kind = calls[0][0]
    flags = {name for name, _ in calls}
    policies = [p for name, arguments in calls[1:] if (p := policy(name, arguments)) is not None]
    options = {"incomplete": "incomplete" in flags, "evicted": "evicted" in flags}
    forgetting = next((f for name, arguments in calls if (f := forgetting_of(name, arguments)) is not None), None)
    if kind == "timeInterval":
        given = {name: micros(a[0]) for name, a in calls[1:] if a != [""]}
        duration = given["intervalDuration"]
        period = given.get("creationPeriod", duration)
        return SplWindow(Interval(duration, period, given.get("discardAge", 0), given.get("intervalOffset", 0)))
    if kind == "tumbling":
        return SplWindow(Tumbling(policies[0]), forgetting, **options)
    eviction, trigger = (*policies, Count(1))[:2]
    assert not isinstance(eviction, Punctuation)
    assert not isinstance(trigger, Punctuation)
    return SplWindow(Sliding(eviction, trigger), forgetting, **options)


def policy(name: str, arguments: list[str]) -> Policy | Punctuation | None:
    match name:
        case "count":
            return Count(int(arguments[0]))
        case "time":
            return Time(micros(arguments[0]))
        case "delta":
            return Delta(arguments[0], float(arguments[1]) if "." in arguments[1] else int(arguments[1]))
        case "punct":
            return Punctuation()
    return None


def forgetting_of(name: str, arguments: list[str]) -> Forgetting | None:
    match name:
        case "partitionAge":
            return PartitionAge(micros(arguments[0]))
        case "partitionCount":
            return PartitionCount(int(arguments[0]))
        case "tupleCount":
            return TupleCount(int(arguments[0]))
    return None
