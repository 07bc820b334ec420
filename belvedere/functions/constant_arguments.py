"""Arguments of functions that must be constant, and their limits.

In: nothing. Out: rules by the key of a function's row and sqlglot's name of the argument. Spark rejects other arguments
when it analyses the query (its conditions NON_FOLDABLE_INPUT and VALUE_OUT_OF_RANGE).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

import pyarrow as pa

from belvedere.functions.spark_types import is_number

MAX_ROWS = 2**31 - 1


@dataclass(frozen=True)
class Constant:
    """An argument that must have the same value for all rows."""

    argument: str
    """sqlglot's name of the argument; `expressions.1` is the second of a list."""
    least: float = -inf
    most: float = inf
    takes_null: bool = False
    is_whole: bool = False
    """Whether its type must be an integer type."""
    is_int: bool = False
    """Whether its type must be INT or narrower."""
    many: bool = False
    """Whether it may be an array of such values."""
    of: Callable[[pa.DataType], bool] | None = None
    """Types of the call's first argument to which this rule applies; None: all."""


_XPATH = [f"xpath{kind}" for kind in ("", *"_boolean _double _float _int _long _number _short _string".split())]
_PLACES = Constant("decimals", takes_null=True)
_SHARE = Constant("quantile", 0, 1, many=True)
_OFFSET = Constant("offset", is_whole=True, is_int=True)

CONSTANTS: Mapping[str, tuple[Constant, ...]] = {
    "Ntile": (Constant("this", 1, MAX_ROWS, is_whole=True, is_int=True),),
    "NthValue": (Constant("offset", 1, MAX_ROWS, is_whole=True),),
    "Lag": (_OFFSET,),
    "Lead": (_OFFSET,),
    "Quantile": (_SHARE,),
    "ApproxQuantile": (_SHARE, Constant("accuracy", 1, MAX_ROWS)),
    "PercentileCont": (Constant("this", 0, 1, many=True),),
    "PercentileDisc": (Constant("this", 0, 1, many=True),),
    "Round": (_PLACES,),
    "Ceil": (_PLACES,),
    "Floor": (_PLACES,),
    "bround": (Constant("expressions.1", takes_null=True),),
    "RegexpReplace": (Constant("position", 1, MAX_ROWS, is_whole=True),),
    "ApproxDistinct": (Constant("accuracy", 0, 0.39),),
    "Mode": (Constant("deterministic"),),
    "mask": tuple(Constant(f"expressions.{n}", takes_null=True) for n in range(1, 5)),
    "to_char": (Constant("expressions.1", of=is_number),),
    "to_varchar": (Constant("expressions.1", of=is_number),),
    "GroupConcat": (Constant("separator", takes_null=True),),
    **dict.fromkeys(_XPATH, (Constant("expressions.1", takes_null=True),)),
    "ToBinary": (Constant("format", takes_null=True),),
    "try_to_binary": (Constant("expressions.1", takes_null=True),),
    "date_part": (Constant("expressions.0"),),
    "datepart": (Constant("expressions.0"),),
}
"""Constant arguments of each function."""
