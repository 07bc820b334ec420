"""The language server: one function per request.

In: a function that opens the project of a script. Out: a pygls server. Diagnostics wait for a pause in typing and are
computed in a thread, so other requests continue. Internal errors are reported to the editor (B9156) and end no
connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from belvedere.catalog.catalog import Catalog
from belvedere.editor.completion import complete
from belvedere.editor.definitions import NamePlace, definitions, references
from belvedere.editor.document import Document, Opened
from belvedere.editor.function_help import signature_of
from belvedere.editor.garbage_collection import collect
from belvedere.editor.hover import explained, hover, signature_text
from belvedere.editor.linked_scripts import LinkedScripts
from belvedere.editor.outline import outline
from belvedere.editor.positions import LineIndex
from belvedere.editor.problems import diagnostics, formatted, remedies
from belvedere.editor.renaming import renamable, rename
from belvedere.editor.signatures import signature_at
from belvedere.editor.store_figures import stored_figures
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.language_server.conversion import to_completion, to_diagnostic, to_range, to_symbol
from belvedere.language_server.documents import OpenDocuments, path_of
from belvedere.project.settings import read_file

FAILED = "B9156"
PAUSE_SECONDS = 0.15
"""Seconds without typing until diagnostics are computed."""
WATCHED = ("**/*.sqrl", "**/belvedere.toml")


FindStore = Callable[[Path, str | None], str]
"""Function that returns the URL of a script's store; its second argument is the URL that the editor names, or None."""


class RequestRefused(JsonRpcException):
    """A request that cannot be executed, with the reason for the user."""

    CODE = -32803


class ScriptServer(LanguageServer):
    """The documents of one editor, and their pending diagnostics."""

    def __init__(self, open_project: Opened, find_store: FindStore | None = None):
        super().__init__(
            "belvedere", version("belvedere"), text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental
        )
        self.documents = OpenDocuments(open_project)
        self.find_store = find_store
        self.store: str | None = None
        self.looking = threading.Lock()
        self.waiting: dict[str, asyncio.Task[None]] = {}
        self.beside: dict[str, dict[str, list[Diagnostic]]] = {}
        """Diagnostics of each open script for files that are not open (the project file, imported scripts, functions),
        by URI."""

    @property
    def encoding(self) -> str:
        """Return the negotiated unit of positions."""
        return str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding))

    def place(self, params: Any) -> tuple[Document, int]:
        """Return the document and the offset of a request."""
        document = self.documents.at(params.text_document.uri)
        return document, document.now.lines.offset(params.position.line, params.position.character, self.encoding)

    def uri_of(self, path: Path) -> str:
        """Return the URI of a file. For an open file it is the editor's own, because editors write URIs in different
        ways."""
        opened = (d.uri for d in self.workspace.text_documents.values() if path_of(d.uri) == path)
        return next(opened, path.as_uri())

    def scripts_beside(self, document: Document) -> LinkedScripts:
        """Return the scripts beside a document, including those of the editor's folders."""
        addresses = [f.uri for f in self.workspace.folders.values()] or [u for u in (self.workspace.root_uri,) if u]
        return self.documents.beside(document, [path_of(u) for u in addresses])

    def check_soon(self, uri: str, pause: float = PAUSE_SECONDS) -> None:
        """Publish diagnostics after a pause without changes."""
        if (before := self.waiting.pop(uri, None)) is not None:
            before.cancel()
        self.waiting[uri] = asyncio.ensure_future(self._check(uri, pause))

    async def _check(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        document = self.documents.opened.get(path_of(uri))
        if document is None:
            return
        text = document.text
        try:
            found = await asyncio.to_thread(diagnostics, document)
            if document.text == text and path_of(uri) in self.documents.opened:
                self._publish(uri, text, found[document.file])
                self.publish_other_files(uri, {f: d for f, d in found.items() if f != document.file})
                await asyncio.to_thread(_tidy, document)
                self.look_at_store(document)
        except Exception as error:
            self.log_error(error)

    def look_at_store(self, document: Document) -> None:
        """Read figures for the next hover from the script's store in the background; one store is read at a time."""
        if self.find_store is not None and document.fine is not None and self.looking.acquire(blocking=False):
            threading.Thread(target=self._look, args=(self.find_store, document, document.fine), daemon=True).start()

    def _look(self, find: FindStore, document: Document, catalog: Catalog) -> None:
        try:
            document.figures = stored_figures(catalog, find(document.path, self.store))
        except Exception:  # hover works without a store
            document.figures = {}
        finally:
            self.looking.release()

    def _publish(self, uri: str, text: str, found: Iterable[Diagnostic]) -> None:
        lines = LineIndex(text)
        reported = [to_diagnostic(d, lines, self.encoding) for d in found]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, reported))

    def publish_other_files(self, uri: str, found: dict[str, list[Diagnostic]]) -> None:
        """Publish an open script's diagnostics for files that are not open, and remove those that no script reports any
        more.
        """
        before = self.beside.pop(uri, {})
        self.beside |= {uri: found} if found else {}
        for file in before.keys() | found.keys():
            if Path(file) not in self.documents.opened:
                said = dict.fromkeys(d for reported in self.beside.values() for d in reported.get(file, ()))
                self._publish(Path(file).as_uri(), _text(file), said)

    def log_error(self, error: Exception) -> None:
        """Report an internal error to the editor's log."""
        text = f"{FAILED}: this request failed inside Belvedere: {type(error).__name__}: {error}"
        self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, text))

    def locations(self, places: list[NamePlace]) -> list[lsp.Location]:
        """Return places as locations in their files."""
        known = {str(d.path): d for d in self.documents.opened.values()}
        found = []
        for place in places:
            lines = known[place.span.file].now.lines if place.span.file in known else LineIndex(_text(place.span.file))
            found.append(
                lsp.Location(
                    self.uri_of(Path(place.span.file)), to_range(lines, place.span.start, place.span.end, self.encoding)
                )
            )
        return found


def _tidy(document: Document) -> None:
    """Run work that can wait until diagnostics are published: plans for the next hover, and garbage collection."""
    explained(document)
    collect()


def _text(file: str) -> str:
    try:
        return read_file(Path(file))
    except (OSError, UnicodeDecodeError):
        return ""


Answer = Callable[[ScriptServer, Any], Any]


def guarded(answer: Answer) -> Answer:
    """Return a request handler that returns nothing on failure: the file is not open, or an internal error, which is
    reported."""

    @wraps(answer)
    def safe(server: ScriptServer, params: Any) -> Any:
        try:
            return answer(server, params)
        except KeyError:  # the file is not open
            return None
        except JsonRpcException:
            raise
        except Exception as error:
            server.log_error(error)
            return None

    return safe


def make_server(open_project: Opened, find_store: FindStore | None = None) -> ScriptServer:
    """Return a server, ready to start."""
    server = ScriptServer(open_project, find_store)
    for method, answer in ANSWERS.items():
        options = {
            lsp.TEXT_DOCUMENT_COMPLETION: lsp.CompletionOptions(trigger_characters=[".", "`"], resolve_provider=True),
            lsp.TEXT_DOCUMENT_SIGNATURE_HELP: lsp.SignatureHelpOptions(trigger_characters=["(", ","]),
            lsp.TEXT_DOCUMENT_RENAME: lsp.RenameOptions(prepare_provider=True),
            lsp.TEXT_DOCUMENT_CODE_ACTION: lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]),
        }.get(method)
        server.feature(method, options)(_bound(guarded(answer), server))
    return server


def _bound(answer: Answer, server: ScriptServer) -> Callable[[Any], Any]:
    def ask(params: Any) -> Any:
        return answer(server, params)

    return ask


def _opened(server: ScriptServer, params: lsp.DidOpenTextDocumentParams) -> None:
    server.documents.open(params.text_document.uri, params.text_document.text)
    server.check_soon(params.text_document.uri, 0)
    _check_importers(server, path_of(params.text_document.uri))


def _changed(server: ScriptServer, params: lsp.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    server.documents.at(uri).change(server.workspace.get_text_document(uri).source)
    server.check_soon(uri)
    _check_importers(server, path_of(uri))


def _check_importers(server: ScriptServer, path: Path) -> None:
    """Recheck open scripts that import a changed script."""
    for other, document in server.documents.opened.items():
        if path in document.imported:
            server.check_soon(server.uri_of(other))


def _closed(server: ScriptServer, params: lsp.DidCloseTextDocumentParams) -> None:
    server.documents.close(params.text_document.uri)
    _check_importers(server, path_of(params.text_document.uri))
    server.publish_other_files(params.text_document.uri, {})
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))


def _beside(server: ScriptServer, params: Any) -> None:
    """Handle a change of another file: the project file, an imported script."""
    server.documents.forget()
    for path in server.documents.opened:
        server.check_soon(server.uri_of(path))


def _initialize(server: ScriptServer, params: lsp.InitializeParams) -> None:
    options = params.initialization_options
    store = options.get("store") if isinstance(options, dict) else getattr(options, "store", None)
    server.store = store if isinstance(store, str) else None


def _initialized(server: ScriptServer, params: Any) -> None:
    watched = server.client_capabilities.workspace and server.client_capabilities.workspace.did_change_watched_files
    if watched and watched.dynamic_registration:
        options = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher(p) for p in WATCHED])
        files = lsp.Registration("files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        server.client_register_capability(lsp.RegistrationParams([files]))


def _completed(server: ScriptServer, params: Any) -> lsp.CompletionList:
    document, offset = server.place(params)
    found = complete(document, offset)
    return lsp.CompletionList(False, to_completion(found, document.now.lines, server.encoding))


def _resolved(server: ScriptServer, item: lsp.CompletionItem) -> lsp.CompletionItem:
    if item.data == "function" and item.documentation is None and (found := signature_of(item.label, {})) is not None:
        item.documentation = lsp.MarkupContent(lsp.MarkupKind.Markdown, signature_text(found))
    return item


def _hovered(server: ScriptServer, params: Any) -> lsp.Hover | None:
    document, offset = server.place(params)
    found = hover(document, offset)
    server.look_at_store(document)
    if found is None:
        return None
    where = to_range(document.now.lines, found.start, found.end, server.encoding)
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found.text), where)


def _defined(server: ScriptServer, params: Any) -> list[lsp.Location]:
    document, offset = server.place(params)
    return server.locations(definitions(document, offset, server.scripts_beside(document).documents))


def _referenced(server: ScriptServer, params: lsp.ReferenceParams) -> list[lsp.Location]:
    document, offset = server.place(params)
    found = references(document, offset, server.scripts_beside(document).documents)
    return server.locations([p for p in found if params.context.include_declaration or not p.use.defines])


def _prepared(server: ScriptServer, params: Any) -> lsp.Range | None:
    document, offset = server.place(params)
    use = renamable(document, offset)
    return to_range(document.now.lines, use.start, use.end, server.encoding) if use is not None else None


def _renamed(server: ScriptServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    document, offset = server.place(params)
    beside = server.scripts_beside(document)
    try:
        edits = rename(document, offset, params.new_name, beside)
    except BelvedereError as error:
        reported = error.diagnostics[0]
        raise RequestRefused(f"{reported.message} ({reported.hint})") from error
    changes: dict[str, list[lsp.TextEdit]] = {}
    lines = {d.file: d.now.lines for d in (document, *beside.documents)}
    for e in edits:
        where = to_range(lines[e.file], e.start, e.end, server.encoding)
        changes.setdefault(server.uri_of(Path(e.file)), []).append(lsp.TextEdit(where, e.text))
    return lsp.WorkspaceEdit(changes=changes)


def _signed(server: ScriptServer, params: Any) -> lsp.SignatureHelp | None:
    call = signature_at(*server.place(params))
    if call is None:
        return None
    said = lsp.MarkupContent(lsp.MarkupKind.Markdown, call.signature.text)
    parameters = [lsp.ParameterInformation(p) for p in call.signature.parameters]
    return lsp.SignatureHelp([lsp.SignatureInformation(call.signature.label, said, parameters)], 0, call.argument)


def _outlined(server: ScriptServer, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    document = server.documents.at(params.text_document.uri)
    return [to_symbol(e, document.now.lines, server.encoding) for e in outline(document)]


def _laid_out(server: ScriptServer, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    document = server.documents.at(params.text_document.uri)
    text = formatted(document)
    if text is None or text == document.text:
        return []
    return [lsp.TextEdit(to_range(document.now.lines, 0, len(document.text), server.encoding), text)]


def _mended(server: ScriptServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    document = server.documents.at(params.text_document.uri)
    lines, where = document.now.lines, params.range
    start = lines.offset(where.start.line, where.start.character, server.encoding)
    end = lines.offset(where.end.line, where.end.character, server.encoding)
    return [
        lsp.CodeAction(
            title=r.title,
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[to_diagnostic(r.diagnostic, lines, server.encoding)],
            edit=lsp.WorkspaceEdit(
                changes={
                    params.text_document.uri: [lsp.TextEdit(to_range(lines, r.start, r.end, server.encoding), r.text)]
                }
            ),
            is_preferred=True,
        )
        for r in remedies(document, start, end)
    ]


ANSWERS: dict[str, Answer] = {
    lsp.INITIALIZE: _initialize,
    lsp.INITIALIZED: _initialized,
    lsp.TEXT_DOCUMENT_DID_OPEN: _opened,
    lsp.TEXT_DOCUMENT_DID_CHANGE: _changed,
    lsp.TEXT_DOCUMENT_DID_CLOSE: _closed,
    lsp.TEXT_DOCUMENT_DID_SAVE: _beside,
    lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES: _beside,
    lsp.TEXT_DOCUMENT_COMPLETION: _completed,
    lsp.COMPLETION_ITEM_RESOLVE: _resolved,
    lsp.TEXT_DOCUMENT_HOVER: _hovered,
    lsp.TEXT_DOCUMENT_DEFINITION: _defined,
    lsp.TEXT_DOCUMENT_REFERENCES: _referenced,
    lsp.TEXT_DOCUMENT_PREPARE_RENAME: _prepared,
    lsp.TEXT_DOCUMENT_RENAME: _renamed,
    lsp.TEXT_DOCUMENT_SIGNATURE_HELP: _signed,
    lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: _outlined,
    lsp.TEXT_DOCUMENT_FORMATTING: _laid_out,
    lsp.TEXT_DOCUMENT_CODE_ACTION: _mended,
}
