"""Sums and averages of decimals in SQLite, exact for all 38 digits, although SQLite has no such numeric type.

In: SQL of stored decimals, their type. Out: aggregates of SQLite, and SQL that computes the stored sum or average from
them. A number is added in parts of nine digits, each a 64-bit integer that cannot overflow. The parts are shifted to be
non-negative.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.store.dialects.dialect import DIGITS_MOST, MEAN_DIGITS, Made
from belvedere.store.dialects.sqlite.sqlite_decimals import DIGITS_OF_INTEGERS, complement_sql

_DIGITS = 9
_PART = 10**_DIGITS
_OVERFLOW = "abs(-9223372036854775807-1)"
"""SQL that fails with `integer overflow`, as Spark does."""


def sum_of_decimals(sql: str, type_: pa.DataType) -> Made:
    """Return the sum as a stored decimal of ten digits more, 38 at most."""
    digits = min(DIGITS_MOST, type_.precision + 10)
    if digits <= DIGITS_OF_INTEGERS:
        return (f"sum({sql})",), lambda pieces: pieces[0]
    shift = DIGITS_OF_INTEGERS if type_.precision <= DIGITS_OF_INTEGERS else type_.precision
    parts = _parts_of_integers(sql) if shift == DIGITS_OF_INTEGERS else _parts_of_texts(sql, shift)
    below = "0" if type_.precision <= DIGITS_OF_INTEGERS else f"coalesce(sum(substr({sql},1,1)='0'),0)"
    return (f"count({sql})", below, *parts), lambda pieces: _sum(pieces, shift, digits)


def _parts_of_integers(sql: str) -> list[str]:
    """Return parts for the sum of 10^18 and the number, which has at most 18 digits."""
    shifted = f"({sql}+{10**DIGITS_OF_INTEGERS})"
    return [f"sum({shifted}%{_PART})", f"sum({shifted}/{_PART}%{_PART})", f"sum({shifted}/{_PART**2})"]


def _parts_of_texts(sql: str, digits: int) -> list[str]:
    """Return parts of a stored text, which represents 10^digits plus the number, minus one for negative numbers."""
    width = digits + 1
    ends = range(width, 0, -_DIGITS)
    slices = [(max(1, end - _DIGITS + 1), min(_DIGITS, end)) for end in ends]
    return [f"sum(CAST(substr({sql},{start},{length}) AS INTEGER))" for start, length in slices]


def _sum(pieces: tuple[str, ...], shift: int, digits: int) -> str:
    """Return the stored text of the sum: a sign, and its digits or their complement."""
    n, below, *parts = pieces
    top = len(parts) - 1
    # the last part takes all leading digits, and the shift is subtracted there
    parts[top] = f"{parts[top]}-{n}*{10 ** (shift - _DIGITS * top)}-1"
    parts[0] = f"{parts[0]}+{below}+{_PART}"
    for number in range(1, top):
        parts[number] = f"{parts[number]}+{_PART - 1}"

    def written(given: list[str]) -> str:
        room = digits - _DIGITS * top
        carried = [given[0]]
        for part in given[1:]:
            carried.append(f"({carried[-1]})/{_PART}+{part}")
        most = 10**room
        front = (
            f"CASE WHEN {carried[top]} BETWEEN -{most} AND {most - 1} THEN {carried[top]}+{most} ELSE {_OVERFLOW} END"
        )
        tail = "".join(f"||printf('%0{_DIGITS}d',({c})%{_PART})" for c in reversed(carried[:top]))
        return f"printf('%0{room + 1}d',{front}){tail}"

    whole = parts[0]
    for part in parts[1:]:
        whole = f"({whole})/{_PART}+{part}"
    negative = written([f"{parts[0]}-1", *parts[1:]])
    return f"CASE WHEN {n}=0 THEN NULL WHEN {whole}<0 THEN {negative} ELSE {written(parts)} END"


def mean_of_decimals(sql: str, type_: pa.DataType) -> Made:
    """Return the average as a stored decimal of four digits more, 38 at most, rounded half away from zero."""
    pieces, total = sum_of_decimals(sql, type_)
    digits, scale = (min(DIGITS_MOST, size + MEAN_DIGITS) for size in (type_.precision, type_.scale))
    more = scale - type_.scale
    summed = min(DIGITS_MOST, type_.precision + 10)
    if summed <= DIGITS_OF_INTEGERS:
        return (*pieces, f"count({sql})"), lambda given: mean_of_integers(given[0], given[1], more)
    return pieces, lambda given: _mean_of_text(total(given), given[0], summed, more, digits)


def mean_of_integers(total: str, n: str, more: int) -> str:
    """Return a sum divided by a number of values, with `more` further digits, rounded half away from zero.

    All numbers fit into 64 bits.
    """
    rest = f"(abs({total}%{n})*{2 * 10**more}+{n})/(2*{n})"
    return f"({total}/{n}*{10**more}+CASE WHEN {total}<0 THEN -{rest} ELSE {rest} END)"


def _mean_of_text(total: str, n: str, summed: int, more: int, digits: int) -> str:
    """Return the long division of the sum's digits by parts. Half of `n` is added in the last part, for rounding."""
    unsigned = "substr(t,2)"
    magnitude = f"CASE substr(t,1,1) WHEN '1' THEN {unsigned} ELSE {complement_sql(unsigned)} END"
    ends = list(range(summed, 0, -_DIGITS))[::-1]
    slices = [(max(1, end - _DIGITS + 1), min(_DIGITS, end)) for end in ends]
    quotients, rest = [], "0"
    for start, length in slices:
        value = f"{rest}*{10**length}+CAST(substr(d,{start},{length}) AS INTEGER)"
        quotients.append(f"({value})/n")
        rest = f"(({value})%n)"
    last = f"({rest}*{10**more}+n/2)/n"
    columns = ",".join(f"{q} AS q{i}" for i, q in enumerate([*quotients, last]))
    lengths = [length for _, length in slices] + [more]
    layers = f"SELECT {total} AS t,{n} AS n"
    layers = f"SELECT t,n,{magnitude} AS d FROM ({layers})"
    layers = f"SELECT t,{columns} FROM ({layers})"
    return f"(SELECT {_normalised(lengths, digits)} FROM ({layers}))"


def _normalised(lengths: list[int], digits: int) -> str:
    """Return the stored text of a number in parts `q0`, `q1`, ... of the given lengths.

    The last part can be one too large.
    """
    carry, written = "", list[str]()
    for number in reversed(range(len(lengths))):
        value = f"(q{number}{f'+{carry}' if carry else ''})"
        power = 10 ** lengths[number]
        if lengths[number]:
            written.insert(0, f"printf('%0{lengths[number]}d',{value}%{power})")
        carry = f"{value}/{power}"
    text = f"({'||'.join(written)})"
    beyond = sum(lengths) - digits
    fitting = text
    if beyond > 0:
        zeros = f"'{'0' * beyond}'"
        fitting = f"CASE WHEN substr({text},1,{beyond})={zeros} THEN substr({text},{beyond + 1}) ELSE {_OVERFLOW} END"
    zero = "0" * digits
    if digits <= DIGITS_OF_INTEGERS:
        plus, minus = "CAST(m AS INTEGER)", "-CAST(m AS INTEGER)"
    else:
        plus, minus = (
            "'1'||m",
            f"CASE m WHEN '{zero}' THEN '1' ELSE '0' END||CASE m WHEN '{zero}' THEN m ELSE {complement_sql('m')} END",
        )
    signed = f"SELECT CASE substr(t,1,1) WHEN '1' THEN {plus} WHEN '0' THEN {minus} END"
    return f"({signed} FROM (SELECT {fitting} AS m))"
