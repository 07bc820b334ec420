"""Synthetic GHCN-Daily: data in the form of the real archive, generated from a seed.

In: a number of stations and a seed. Out: a Spark DataFrame `station, date, dataType, val, qflag`, the same on every
machine: each value is a function of hash(seed, station, day), so all parts can be generated in parallel. Values are
tenths of a degree C as in the archive. Real stations have about 280 observed days a year; here, too, months and single
days are missing.

    python examples/ghcn/generate.py FOLDER [--stations 200] [--seed 1]      (writes Parquet)
"""

from __future__ import annotations

import argparse
from typing import Any

MEAN = "10 * (14 - abs(latitude) * 0.35 - elevation / 160)"
SEASON = f"{MEAN} - (20 + abs(latitude) * 2.2) * cos(2 * pi() * (dayofyear(date) - 20) / 365.25)"


def uniform(*parts: str) -> str:
    """Return an SQL expression for a number in [0, 1) from a hash of the parts."""
    return f"(pmod(xxhash64({', '.join(parts)}), 1000003) / 1000003D)"


def noise(knot: int, seed: int, label: str) -> str:
    """Return an SQL expression for smooth noise in [-1, 1]: cosine interpolation between values at every `knot`
    days."""
    name = f"'{label}'"
    low = f"({uniform(str(seed), name, 'number', f'day div {knot}')} * 2 - 1)"
    high = f"({uniform(str(seed), name, 'number', f'day div {knot} + 1')} * 2 - 1)"
    share = f"((1 - cos(pi() * (day % {knot}) / {knot}D)) / 2)"
    return f"({low} * (1 - {share}) + {high} * {share})"


def daily(seed: int, label: str, day: str = "day") -> str:
    """Return an SQL expression for a number in [0, 1) for each station and day."""
    return uniform(str(seed), f"'{label}'", "number", day)


def stations(spark: Any, count: int, seed: int, days: int | None = None) -> Any:
    """Return a row per station: id in the real 11-character form, place, first day and number of days.

    `days`, if given, is the number of days of all stations.
    """
    length = str(days) if days else "least(cast(exp(8.6 + 0.9 * (u3 + u4 + u5 - 1.5) * 2) as int) + 30, 91000)"
    country = "element_at(array('US', 'CA', 'AS', 'GM', 'SW', 'BR'), cast(u0 * 6 as int) + 1)"
    network = "element_at(array('C', 'W', '1', 'R', 'M', '0'), cast(u1 * 6 as int) + 1)"
    return (
        spark.range(count)
        .selectExpr("id AS number", *(f"{uniform(str(seed), str(n), 'id')} AS u{n}" for n in range(6)))
        .selectExpr(
            "number",
            f"concat({country}, {network}, lpad(cast(number as string), 8, '0')) AS station",
            "u1 * 130 - 60 AS latitude",
            "u2 * u2 * 2500 AS elevation",
            f"{length} AS days",
            "date_add(date'1950-01-01', cast(u2 * 20000 as int)) AS first_day",
        )
    )


def readings(
    spark: Any, count: int, seed: int = 1, days: int | None = None, elements: tuple[str, ...] = ("TMIN",)
) -> Any:
    """Return the observations of `count` stations."""
    each_day = stations(spark, count, seed, days).selectExpr("*", "explode(sequence(0, days - 1)) AS day")
    dated = each_day.selectExpr("*", "date_add(first_day, day) AS date")
    present = dated.where(f"{daily(seed, 'month', 'day div 30')} > 0.17 AND {daily(seed, 'day')} > 0.025")
    observed = present.selectExpr("*", f"explode(array({', '.join(repr(e) for e in elements)})) AS dataType")
    smooth = f"35 * {noise(4, seed, 'short')} + 25 * {noise(11, seed, 'long')}"
    weather = f"{SEASON} + {smooth} + 10 * ({daily(seed, 'white')} - 0.5)"
    value = f"cast(floor({weather} + if(dataType = 'TMAX', 90, 0)) as bigint)"
    flag = f"if({daily(seed, 'flag')} < 0.003, 'I', null)"
    return observed.selectExpr("station", "date", "dataType", f"{value} AS val", f"{flag} AS qflag")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--stations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    from belvedere.spark.session import local_session

    readings(local_session(), given.stations, given.seed, elements=("TMIN", "TMAX")).write.mode("overwrite").parquet(
        given.folder
    )


if __name__ == "__main__":
    main()
