"""A JSON array read as it streams has the elements that it has when it is read at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from belvedere.connectors.reading.json_arrays import read_elements


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[n : n + size] for n in range(0, len(data), size))


def made(random: Random, depth: int = 0) -> Any:
    kinds = [
        random.randint(-(10**9), 10**9),
        random.random() * 10 ** random.randint(-30, 30),
        None,
        True,
        'é\u2028"\\[],{}',
    ]
    if depth < 3:
        kinds += [
            [made(random, depth + 1) for _ in range(random.randint(0, 3))],
            {f"k{n}": made(random, depth + 1) for n in range(2)},
        ]
    return random.choice(kinds)


def damaged(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data) + 1)
    more = random.choice([b",", b"]", b"x", b"\xff", b" ", b"1", b"e", b"-"])
    return random.choice(
        [data[:place], data[:place] + more + data[place:], data + b" []", data[:place] + data[place + 1 :]]
    )


def outcome(read: Any) -> str:
    try:
        return repr(read())
    except ValueError:
        return "no array"


def test_random_arrays_in_pieces() -> None:
    random, seen = Random(4), set()
    for _ in range(1000):
        values = [made(random) for _ in range(random.randint(0, 4))]
        data = json.dumps(values, ensure_ascii=random.random() < 0.5, indent=random.choice([None, 1])).encode()
        data = damaged(random, data) if random.random() < 0.5 else data

        def at_once(data: bytes = data) -> list[Any]:
            found = json.loads(data.decode())
            if not isinstance(found, list):
                raise ValueError
            return found

        expected = outcome(at_once)
        for size in (1, 2, 7, 1000):
            assert outcome(lambda size=size, data=data: list(read_elements(chunks(data, size)))) == expected, data
        seen.add(expected == "no array")
    assert seen == {True, False}


def test_what_is_nested_too_deep_is_no_array() -> None:
    with pytest.raises(ValueError, match="too deep"):
        list(read_elements(chunks(b"[" * 200_000, 1000)))
