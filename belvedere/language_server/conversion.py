"""Conversion of values of `belvedere.editor` to protocol types.

In: spans, diagnostics, proposals. Out: types of lsprotocol, with positions in the negotiated encoding.
"""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types as lsp

from belvedere.editor.completion import Proposal, Proposals
from belvedere.editor.outline import OutlineEntry
from belvedere.editor.positions import LineIndex
from belvedere.errors import Diagnostic, Severity

SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTICE: lsp.DiagnosticSeverity.Information,
}
KINDS = {
    "relation": lsp.CompletionItemKind.Class,
    "column": lsp.CompletionItemKind.Field,
    "relationship": lsp.CompletionItemKind.Reference,
    "field": lsp.CompletionItemKind.Property,
    "alias": lsp.CompletionItemKind.Variable,
    "function": lsp.CompletionItemKind.Function,
    "type": lsp.CompletionItemKind.TypeParameter,
    "source": lsp.CompletionItemKind.Module,
    "hint": lsp.CompletionItemKind.Keyword,
    "keyword": lsp.CompletionItemKind.Keyword,
}
ORDER = ("column", "field", "relationship", "alias", "relation", "source", "type", "hint", "keyword", "function")
SYMBOLS = {
    "input": lsp.SymbolKind.Struct,
    "import": lsp.SymbolKind.Module,
    "view": lsp.SymbolKind.Class,
    "subscription": lsp.SymbolKind.Event,
    "template": lsp.SymbolKind.Function,
    "relationship": lsp.SymbolKind.Property,
    "column": lsp.SymbolKind.Field,
}


def to_range(lines: LineIndex, start: int, end: int, encoding: str) -> lsp.Range:
    """Return the range of a span."""
    return lsp.Range(lsp.Position(*lines.position(start, encoding)), lsp.Position(*lines.position(end, encoding)))


def to_diagnostic(found: Diagnostic, lines: LineIndex, encoding: str) -> lsp.Diagnostic:
    """Return a diagnostic; its hint and detail are lines of the message. Without a position it is placed at the
    beginning."""
    start, end = (found.span.start, found.span.end) if found.span is not None else (0, 0)
    said = [found.message, *(f"{w}: {t}" for w, t in (("detail", found.detail), ("hint", found.hint)) if t)]
    own = [la for la in found.labels if found.span is not None and la.span.file == found.span.file]
    related = [
        lsp.DiagnosticRelatedInformation(
            lsp.Location(Path(la.span.file).as_uri(), to_range(lines, la.span.start, la.span.end, encoding)), la.text
        )
        for la in own
    ]
    where = to_range(lines, start, end, encoding)
    return lsp.Diagnostic(
        where,
        "\n".join(said),
        SEVERITIES[found.severity],
        found.code,
        source="belvedere",
        related_information=related or None,
    )


def to_completion(found: Proposals, lines: LineIndex, encoding: str) -> list[lsp.CompletionItem]:
    """Return completion items, names before keywords."""
    where = to_range(lines, found.start, found.end, encoding)
    return [_item(p, where) for p in found.found]


def _item(found: Proposal, where: lsp.Range) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        label=found.word,
        kind=KINDS[found.kind],
        detail=found.detail or None,
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, found.doc) if found.doc else None,
        text_edit=lsp.TextEdit(where, found.written),
        filter_text=found.written,
        sort_text=f"{ORDER.index(found.kind)}{found.word.casefold()}",
        data=found.kind,
    )


def to_symbol(entry: OutlineEntry, lines: LineIndex, encoding: str) -> lsp.DocumentSymbol:
    """Return an entry of the outline."""
    return lsp.DocumentSymbol(
        name=entry.name,
        kind=SYMBOLS.get(entry.kind, lsp.SymbolKind.Object),
        range=to_range(lines, entry.start, entry.end, encoding),
        selection_range=to_range(lines, entry.name_start, entry.name_end, encoding),
        detail=entry.kind,
        children=[to_symbol(c, lines, encoding) for c in entry.children],
    )
