"""Formats of messages: one module is one format, found by its name.

In: the values of messages, the columns that they hold. Out: `Decoded`. What a format is, is said in `decoded_rows`.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from belvedere.connectors.kafka.formats.decoded_rows import PayloadFormat


def format_named(name: str) -> PayloadFormat:
    """The format of that name, one of those that the project file may say."""
    return cast(PayloadFormat, import_module(f"belvedere.connectors.kafka.formats.{name}"))
