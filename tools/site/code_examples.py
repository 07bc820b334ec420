"""Read and run the examples of codes: causes of diagnostics, and the diagnostics as a user sees them.

In: `code_examples.txt`, with causes that a test can run without Spark, and `message_examples.txt`, with messages of a
run, a store or a server. Out: the parts below a code's text in the reference.

`code_examples.txt` has sections that begin with `=== CODE`. A section is a script, or files that each begin with `+++
NAME` below the command that reads them: `$ belvedere ...`. `message_examples.txt` has sections of the same form: a
sentence with the situation, the message, and for a message without hint a line `correction: TEXT`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SCRIPTS = Path(__file__).with_name("code_examples.txt")
MESSAGES = Path(__file__).with_name("message_examples.txt")
FOLDER = "/home/ann/shop"
"""The folder of an example's files, as it is shown."""
LANGUAGES = {".sqrl": "sql", ".toml": "toml", ".py": "python", ".json": "json"}
OF_SCRIPT = "For example, this script\n\n```sql\n{text}\n```\n\ngives\n\n```text\n{printed}\n```\n\n"
OF_COMMAND = "{files}`{command}` prints\n\n```text\n{printed}\n```\n\n"
OF_MESSAGE = "Example: {when}\n\n```{language}\n{printed}\n```\n\n{correction}"


@dataclass(frozen=True, slots=True)
class Example:
    """Cause of a diagnostic: a script alone (`text`), or a command with the files that it reads."""

    code: str
    text: str
    command: str | None = None
    files: tuple[tuple[str, str], ...] = ()

    def run(self) -> str:
        """Return the output of the compiler or the command; for a script only the diagnostic with this code."""
        return _compiled(self.code, self.text) if self.command is None else _printed(self.command, self.files)


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a run, a store or a server: when it appears, its lines, and the correction if it has no hint."""

    code: str
    when: str
    printed: str
    correction: str = ""


def _sections(file: Path) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^=== (B\d{4})\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    yield from ((code, text.strip("\n")) for code, text in zip(parts[::2], parts[1::2], strict=True))


def examples() -> dict[str, Example]:
    """Return the examples that can be run, by code."""
    found = {}
    for code, text in _sections(SCRIPTS):
        if not text.startswith("$ "):
            found[code] = Example(code, text)
            continue
        command, *parts = re.split(r"^\+\+\+ (.+)\n", f"{text}\n", flags=re.MULTILINE)
        files = tuple((name, content) for name, content in zip(parts[::2], parts[1::2], strict=True))
        found[code] = Example(code, "", command.removeprefix("$ ").strip(), files)
    return found


def messages() -> dict[str, Message]:
    """Return the messages that are shown without running anything, by code."""
    found = {}
    for code, text in _sections(MESSAGES):
        when, printed = text.split("\n", 1)
        printed, _, correction = printed.partition("\ncorrection: ")
        found[code] = Message(code, when, printed, correction)
    return found


def _compiled(code: str, script: str) -> str:
    from belvedere.compiler import compile_script  # the other pages need no compiler
    from belvedere.terminal.diagnostics import render

    found = [d for d in compile_script(script).diagnostics if d.code == code][:1]
    return render(found, {"script.sqrl": script}).strip()


def _printed(command: str, files: tuple[tuple[str, str], ...]) -> str:
    """Run a command in a folder with the files, and return its output."""
    from belvedere.cli import run

    out = io.StringIO()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for path, text in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        here = os.getcwd()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                run(_words(command))
        finally:
            os.chdir(here)
    return out.getvalue().replace(str(folder), FOLDER).strip()


def _words(command: str) -> list[str]:
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)][1:]


@cache
def shown() -> Mapping[str, str]:
    """Return the Markdown of each example, by code."""
    found = {code: _as_text(message) for code, message in messages().items()}
    for code, example in examples().items():
        if example.command is None:
            found[code] = OF_SCRIPT.format(text=example.text, printed=example.run())
        else:
            files = "".join(map(_as_file, *zip(*example.files, strict=True))) if example.files else ""
            found[code] = "Example:\n\n" + OF_COMMAND.format(
                files=files, command=example.command, printed=example.run()
            )
    return found


def _as_text(message: Message) -> str:
    language = "json" if message.printed.startswith("{") else "text"
    correction = f"{message.correction}\n\n" if message.correction else ""
    return OF_MESSAGE.format(when=message.when, language=language, printed=message.printed, correction=correction)


def _as_file(name: str, text: str) -> str:
    language = LANGUAGES.get(Path(name).suffix, "text")
    return f"```{language} file={name}\n{text.strip()}\n```\n\n"
