"""A script that somebody edits: its text, what the last compiles understood of it, what its names mean.

In: a path, texts, a project. Out: a `Document`: everything else in this package asks it. Each text is read, and compiled where that is
asked for; what is known of a name stays while its statement is broken.
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
"""One compile at a time, of any script: a server asks in several threads, and modules of functions change what Python imports."""
Opened = Callable[[Path], ProjectSettings]
"""The project of the script at a path."""


@dataclass(frozen=True)
class Revision:
    """One text of a script, and what was known when it came."""

    text: str
    known: Known

    @cached_property
    def lines(self) -> LineIndex:
        """Where its lines are."""
        return LineIndex(self.text)

    @cached_property
    def read(self) -> ReadText:
        """Its tokens and statements."""
        return read(self.text, self.known.file)

    @cached_property
    def statements(self) -> list[ScopedStatement]:
        """Its statements, ready to be asked."""
        return [statement_of(self.read, s, self.known) for s in self.read.statements]

    @cached_property
    def uses(self) -> list[Use]:
        """Return the meanings of its names, in the order of the text."""
        return sorted((u for s in self.statements for u in uses_of(s)), key=lambda u: (u.start, u.defines))

    @cached_property
    def imported_words(self) -> frozenset[str]:
        """The folded words of its imports."""
        heads = ((s, read_head(self.read, s.lo, s.hi)) for s in self.read.statements)
        imports = (s for s, head in heads if head.form is StatementForm.IMPORT)
        return frozenset(t.text.casefold() for s in imports for t in self.read.tokens[s.lo : s.hi])

    def statement_at(self, offset: int) -> ScopedStatement | None:
        """The statement at an offset."""
        found = self.read.statement_at(offset)
        return next((s for s in self.statements if s.range is found), None)

    def uses_at(self, offset: int) -> list[Use]:
        """Return the meanings of the name that contains or ends at an offset: first its target, then its definition."""
        return [u for u in self.uses if u.start <= offset <= u.end]


class Document:
    """A script. `compile` may be called in another thread than the rest; whoever has a `Revision` keeps it."""

    def __init__(
        self,
        path: Path,
        text: str,
        open_project: Opened | None = None,
        tables: CachedTables | None = None,
        texts: Callable[[Path], str] = read_file,
    ):
        """`texts` says the texts of the scripts that it imports, as their editors have them."""
        self.path, self.file = path, str(path)
        self._open = open_project or (lambda p: load_project(p.parent))
        self._tables, self.texts = tables or CachedTables(), texts
        self._progress = Progress()
        self.fine: Catalog | None = None
        """The catalog of the last compile without errors."""
        self.figures: Mapping[str, str] = {}
        """Figures of a store on relations, by id: Markdown for hover."""
        self.imported: dict[Path, str | None] = {}
        """The scripts that the last compile has read, also through others, with their texts; None where one could not be read."""
        self._compiled: tuple[str, Compiled, ProjectSettings] | None = None
        self.now = Revision(text, Known(Catalog(), self.file))

    @classmethod
    def of_names(cls, text: str, known: Known) -> Document:
        """A text by itself over names that are known: a query. It is not compiled."""
        made = cls(Path(known.file), text)
        made.now = Revision(text, known)
        made._compiled = (text, Compiled(known.catalog), ProjectSettings(Path()))
        return made

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self.now.text

    def change(self, text: str) -> None:
        """Take another text."""
        if text != self.now.text:
            self.now = Revision(text, self.now.known)

    def forget(self) -> None:
        """Something beside the text has changed: the next compile is a new one."""
        self._compiled = None
        self._progress = Progress()

    def compile(self) -> Compiled:
        """Return the compiled text; its names are then known. Its diagnostics begin with those of the project file."""
        return self._compile()[1]

    @property
    def project(self) -> ProjectSettings:
        """The project of the last compile."""
        return (self._compiled or self._compile())[2]

    def wrong_at(self, offset: int) -> list[Diagnostic]:
        """The errors and warnings of the last compile at an offset; none where it was one of another text."""
        done = self._compiled
        reported = done[1].diagnostics if done is not None and done[0] == self.text else ()
        here = [
            d
            for d in reported
            if d.span is not None and d.span.file == self.file and d.span.start <= offset <= d.span.end
        ]
        return [d for d in here if d.severity is not Severity.NOTICE]

    def ready(self) -> Revision:
        """The text as it is now, with names of a compile: of this text if there has been none at all."""
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
        """The text of a script that this one imports, which is noted."""
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
        except BelvedereError as error:  # a profile that is not there
            project = ProjectSettings(self.path.parent)
            compiled = Compiled(Catalog(), error.diagnostics)
        now = self.now
        known = Known(compiled.catalog, self.file, now.known, _defined(now.read), _imported(now.read))
        if now.text == text:
            self.now = Revision(text, known)
        else:  # it was changed meanwhile
            self.now = Revision(now.text, known)
        self.fine = compiled.catalog if compiled.ok else self.fine
        return text, compiled, project


def _imported(read_text: ReadText) -> dict[str, str]:
    """Return the targets of imports with an alias, by the folded alias."""
    heads = (read_head(read_text, s.lo, s.hi) for s in read_text.statements)
    named = ((h.alias, h.path) for h in heads if h.form is StatementForm.IMPORT and h.alias is not None and h.path)
    return {read_text.tokens[alias].text.casefold(): read_text.tokens[path[-1]].text for alias, path in named}


def _defined(read_text: ReadText) -> set[str]:
    """The folded names that statements define, understood or not; imports of all tables of a source define any."""
    names = set()
    for statement in read_text.statements:
        head = read_head(read_text, statement.lo, statement.hi)
        if head.name is not None:
            names.add(read_text.tokens[head.name].text.casefold())
            names.add(".".join(read_text.tokens[i].text for i in head.path).casefold())
    return names
