"""Names, parameters and descriptions of functions, for display.

In: a name, the project's own functions. Out: a `Signature`. Names and numbers of arguments come from
`belvedere.functions`. Descriptions come from Spark, except for functions that the language defines differently, which
are described here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from belvedere.functions.function import MANY, Kind
from belvedere.functions.function_table import ARITY, FUNCTIONS
from belvedere.functions.project_functions import OwnFunction, signature
from belvedere.functions.spark_types import type_text
from belvedere.plan.operators.time_window import TimeWindowKind
from belvedere.syntax.forms.windowing_calls import FORMS, arguments_of

OWN_TEXTS = {
    "now": (
        "The epoch's clock: the same for all rows of an epoch. With a filter on it rows enter and leave as time passes."
    ),
    **{
        u: f"The time rounded down to its {u}."
        for u in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    },
    "late": "The late rows of an input that were not used, each with the reason and the bound.",
}
"""Descriptions of functions that Spark does not have or defines differently."""
OWN_PARAMETERS = {"now": (), "late": ("table",)} | dict.fromkeys(
    ("second", "minute", "hour", "day", "week", "month", "quarter", "year"), ("time",)
)
WINDOW_TEXTS = {
    TimeWindowKind.TUMBLE: "Rows in consecutive windows of one length; adds the window's start and end.",
    TimeWindowKind.HOP: "Rows in windows of one length that begin every `hopsize`; adds the window's start and end.",
    TimeWindowKind.CUMULATE: "Rows in windows that grow by `hopsize` up to `dur`; adds the window's start and end.",
    TimeWindowKind.SESSION: (
        "Rows in windows that end when no row arrives for `gap`, for each key; adds the window's start and end."
    ),
}


@dataclass(frozen=True)
class Signature:
    """A function: its name, parameters, description and kind."""

    name: str
    parameters: tuple[str, ...]
    text: str
    kind: str

    @property
    def label(self) -> str:
        """Return the call as text, such as `round(col, scale)`."""
        return f"{self.name}({', '.join(self.parameters)})"


@cache
def function_names() -> Mapping[str, str]:
    """Return all functions that a query may call, by name, with their kind."""
    named = {n: f.kind.value for f in FUNCTIONS for n in f.calls if n.isidentifier()}
    return dict(sorted(named.items()))


def window_signature(name: str) -> Signature | None:
    """Return the signature of a windowing function of FROM; None for other names."""
    kind = next((k for k in FORMS if k.value == name.lower()), None)
    if kind is None:
        return None
    names = {"keys": "key"}
    parameters = tuple(names.get(a, a) for a in arguments_of(kind.value))
    return Signature(kind.value.title(), parameters, WINDOW_TEXTS[kind], "time window")


def signature_of(name: str, own: Mapping[str, OwnFunction]) -> Signature | None:
    """Return the signature of a function, ignoring case; None if it is unknown."""
    folded = name.casefold()
    if folded in own:
        made = own[folded]
        text = (made.call.__doc__ or "").strip() if made.call is not None else ""
        parameters = tuple(f"{n} {type_text(t)}" for n, t in made.parameters)
        return Signature(
            made.name, parameters, text or f"A function of the project: {signature(made, type_text)}.", "of the project"
        )
    if (window := window_signature(folded)) is not None:
        return window
    if folded in OWN_TEXTS:
        return Signature(folded, OWN_PARAMETERS[folded], OWN_TEXTS[folded], Kind.SCALAR.value)
    if folded not in function_names():
        return None
    return _of_spark(folded)


@cache
def _of_spark(name: str) -> Signature:
    from belvedere.spark.function_texts import function_text  # reads files of PySpark, only for help on its functions

    said = function_text(name)
    least, most = ARITY.get(name, (0, MANY))
    parameters = said.parameters if said is not None else ()
    if not parameters and name in ARITY:
        parameters = (*(f"value{n + 1}" for n in range(least)), *(("...",) if most > least else ()))
    return Signature(name, parameters, said.text if said is not None else "", function_names()[name])
