"""Formats of messages: one module is one format, found by its name.

In: the values of messages, the columns that they hold. Out: `Decoded`. `decoded_rows` defines the interface.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from belvedere.connectors.kafka.formats.decoded_rows import PayloadFormat


def format_named(name: str) -> PayloadFormat:
    """Return the format of that name, which the project file may use."""
    return cast(PayloadFormat, import_module(f"belvedere.connectors.kafka.formats.{name}"))
