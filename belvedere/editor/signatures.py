"""Function call around the cursor.

In: a document, an offset. Out: the signature of the function, and the index of the argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType as T

from belvedere.editor.document import Document
from belvedere.editor.function_help import Signature, signature_of
from belvedere.editor.tolerant_reading import CLOSING, OPENING, is_word
from belvedere.functions.spark_types import type_text


@dataclass(frozen=True)
class Call:
    """A function, and the index of the argument, from 0."""

    signature: Signature
    argument: int


def signature_at(document: Document, offset: int) -> Call | None:
    """Return the innermost call of a known function around an offset; None if there is none."""
    now = document.ready()
    read, commas, depth = now.read, 0, 0
    found = read.statement_at(offset)
    i = read.before(offset)
    while found is not None and i > found.lo:
        kind = read.tokens[i].token_type
        if kind in CLOSING and read.tokens[i].end < offset:
            depth += 1
        elif kind in OPENING and depth:
            depth -= 1
        elif kind in OPENING:
            call = _called(document, i) if kind == T.L_PAREN and is_word(read.tokens[i - 1]) else None
            if call is not None:
                return Call(call, min(commas, max(len(call.parameters) - 1, 0)))
            commas = 0
        elif kind == T.COMMA and not depth:
            commas += 1
        i -= 1
    return None


def _called(document: Document, opening: int) -> Signature | None:
    name = document.now.read.tokens[opening - 1].text
    known = document.now.known
    template = next((t for n, t in known.catalog.templates.items() if n.casefold() == name.casefold()), None)
    if template is not None:
        parameters = tuple(f"{p.name} {type_text(p.type)}" for p in template.parameters)
        return Signature(template.name, parameters, template.doc or "", "query template")
    return signature_of(name, known.functions)
