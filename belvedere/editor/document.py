"""A script open in an editor: its text, the results of its last compiles, and the meanings of its names.

In: a path, texts, a project. Out: a `Document`, which the other modules of this package use. Each text is tokenized,
and compiled on demand. Names keep their last known meaning while their statement is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import RLock

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import Compiled, compile_script
from belvedere.connectors.project_file import load_project
from belvedere.editor.known_relations import Known
from belvedere.editor.name_uses import uses_of
from belvedere.editor.positions import LineIndex
from belvedere.editor.source_tables import CachedTables
from belvedere.editor.statement_heads import StatementForm, read_head
from belvedere.editor.statements import ScopedStatement, statement_of
from belvedere.editor.symbols import Use
from belvedere.editor.tolerant_reading import ReadText, read
from belvedere.errors import BelvedereError, Diagnostic, Severity
from belvedere.lang.statements.incremental_compile import Progress
from belvedere.project.settings import ProjectSettings, read_file

SUFFIX = ".sqrl"
COMPILING = RLock()
"""Lock that allows one compile at a time, of any script: a server uses several threads, and modules of functions change
Python's imports."""
Opened = Callable[[Path], ProjectSettings]
"""Function that returns the project of the script at a path."""


@dataclass(frozen=True)
class Revision:
    """One text of a script, and what was known when it arrived."""

    text: str
    known: Known

    @cached_property
    def lines(self) -> LineIndex:
        """Return its line index."""
        return LineIndex(self.text)

    @cached_property
    def read(self) -> ReadText:
        """Return its tokens and statements."""
        return read(self.text, self.known.file)

    @cached_property
    def statements(self) -> list[ScopedStatement]:
        """Return its statements with resolvable names."""
        return [statement_of(self.read, s, self.known) for s in self.read.statements]

    @cached_property
    def uses(self) -> list[Use]:
        """Return the meanings of its names, in the order of the text."""
        return sorted((u for s in self.statements for u in uses_of(s)), key=lambda u: (u.start, u.defines))

    @cached_property
    def imported_words(self) -> frozenset[str]:
        """Return the folded words of its imports."""
        heads = ((s, read_head(self.read, s.lo, s.hi)) for s in self.read.statements)
        imports = (s for s, head in heads if head.form is StatementForm.IMPORT)
        return frozenset(t.text.casefold() for s in imports for t in self.read.tokens[s.lo : s.hi])

    def statement_at(self, offset: int) -> ScopedStatement | None:
        """Return the statement at an offset."""
        found = self.read.statement_at(offset)
        return next((s for s in self.statements if s.range is found), None)

    def uses_at(self, offset: int) -> list[Use]:
        """Return the meanings of the name that contains or ends at an offset: first its target, then its definition."""
        return [u for u in self.uses if u.start <= offset <= u.end]


class Document:
    """A script open in an editor. `compile` may run in another thread; a `Revision` never changes."""

    def __init__(
        self,
        path: Path,
        text: str,
        open_project: Opened | None = None,
        tables: CachedTables | None = None,
        texts: Callable[[Path], str] = read_file,
    ):
        """Create a document. `texts` returns the texts of imported scripts as their editors have them."""
        self.path, self.file = path, str(path)
        self._open = open_project or (lambda p: load_project(p.parent))
        self._tables, self.texts = tables or CachedTables(), texts
        self._progress = Progress()
        self.fine: Catalog | None = None
        """The catalog of the last compile without errors."""
        self.figures: Mapping[str, str] = {}
        """Statistics of a store by relation id, as Markdown for hover."""
        self.imported: dict[Path, str | None] = {}
        """Scripts that the last compile read, directly or through others, with their texts; None for one that could not
        be read."""
        self._compiled: tuple[str, Compiled, ProjectSettings] | None = None
        self.now = Revision(text, Known(Catalog(), self.file))

    @classmethod
    def of_names(cls, text: str, known: Known) -> Document:
        """Return a document of a single query over known names. It is not compiled."""
        made = cls(Path(known.file), text)
        made.now = Revision(text, known)
        made._compiled = (text, Compiled(known.catalog), ProjectSettings(Path()))
        return made

    @property
    def text(self) -> str:
        """Return the current text."""
        return self.now.text

    def change(self, text: str) -> None:
        """Replace the text."""
        if text != self.now.text:
            self.now = Revision(text, self.now.known)

    def forget(self) -> None:
        """Discard the last compile, because a file other than the script has changed."""
        self._compiled = None
        self._progress = Progress()

    def compile(self) -> Compiled:
        """Return the compiled text; its names are then known. Its diagnostics begin with those of the project file."""
        return self._compile()[1]

    @property
    def project(self) -> ProjectSettings:
        """Return the project of the last compile."""
        return (self._compiled or self._compile())[2]

    def wrong_at(self, offset: int) -> list[Diagnostic]:
        """Return the errors and warnings of the last compile at an offset; none if the text has changed since."""
        done = self._compiled
        reported = done[1].diagnostics if done is not None and done[0] == self.text else ()
        here = [
            d
            for d in reported
            if d.span is not None and d.span.file == self.file and d.span.start <= offset <= d.span.end
        ]
        return [d for d in here if d.severity is not Severity.NOTICE]

    def ready(self) -> Revision:
        """Return the current text with the names of a compile; compile it if no text was compiled before."""
        if self._compiled is None:
            self._compile()
        return self.now

    def _compile(self) -> tuple[str, Compiled, ProjectSettings]:
        with COMPILING:
            done = self._compiled
            if done is None or done[0] != self.now.text or any(self._text_of(p) != t for p, t in self.imported.items()):
                done = self._compiled = self._compile_now()
            return done

    def _text_of(self, path: Path) -> str | None:
        try:
            return self.texts(path)
        except (OSError, UnicodeDecodeError):
            return None

    def _read_script(self, path: Path) -> str:
        """Return the text of an imported script, and record the import."""
        self.imported[path] = None
        text = self.imported[path] = self.texts(path)
        return text

    def _compile_now(self) -> tuple[str, Compiled, ProjectSettings]:
        text = self.now.text
        self.imported = {}
        try:
            project = replace(self._open(self.path), finder=self._tables, read_script=self._read_script)
            compiled = compile_script(text, path=self.path, project=project, progress=self._progress)
            compiled = replace(
                compiled, diagnostics=tuple(dict.fromkeys((*project.diagnostics, *compiled.diagnostics)))
            )
        except BelvedereError as error:  # the profile does not exist
            project = ProjectSettings(self.path.parent)
            compiled = Compiled(Catalog(), error.diagnostics)
        now = self.now
        known = Known(compiled.catalog, self.file, now.known, _defined(now.read), _imported(now.read))
        if now.text == text:
            self.now = Revision(text, known)
        else:  # the text changed meanwhile
            self.now = Revision(now.text, known)
        self.fine = compiled.catalog if compiled.ok else self.fine
        return text, compiled, project


def _imported(read_text: ReadText) -> dict[str, str]:
    """Return the targets of imports with an alias, by the folded alias."""
    heads = (read_head(read_text, s.lo, s.hi) for s in read_text.statements)
    named = ((h.alias, h.path) for h in heads if h.form is StatementForm.IMPORT and h.alias is not None and h.path)
    return {read_text.tokens[alias].text.casefold(): read_text.tokens[path[-1]].text for alias, path in named}


def _defined(read_text: ReadText) -> set[str]:
    """Return the folded names and paths that statements define, including broken statements."""
    names = set()
    for statement in read_text.statements:
        head = read_head(read_text, statement.lo, statement.hi)
        if head.name is not None:
            names.add(read_text.tokens[head.name].text.casefold())
            names.add(".".join(read_text.tokens[i].text for i in head.path).casefold())
    return names
