"""The terminals of a page: commands that run once, repeat until they answer, or keep running.

In: the text of a block of `console`, and the words of its fence. Out: an assertion where what is printed is not what
the page says. A page writes the port 8080; here it is one that is free. With a session of Spark, commands of
`belvedere` that end run in this process.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.run.in_process import command as here

PORT = "8080"
PATIENCE = 60.0
"""Seconds until what stays, or is asked again, must have printed what the page says."""


@dataclass
class Terminals:
    """The terminals of one page, in its folder."""

    folder: Path
    port: int
    spark: Any = None
    staying: list[tuple[subprocess.Popen[bytes], Path]] = field(default_factory=list)

    def run(self, text: str, words: tuple[str, ...], place: str) -> None:
        """Run a block: each command after `$ `, and compare. `stays`: it goes on, and this is what it prints first;
        `soon`: ask until it answers so; `ended`: Ctrl-C in what stays before; without a command: what the one that
        stays prints at its end by and by.
        """
        text = text.replace(PORT, str(self.port))
        if "ended" in words:
            self.end()
        first, *commands = re.split(r"^\$ ", text, flags=re.MULTILINE)
        if first.strip():
            self.expect("...\n" + first, self.staying[-1][1], f"{place}: the command that stays")
        for part in commands:
            command, expected = _parted(part)
            if "stays" in words:
                self.expect(expected.rstrip("\n") + "\n...", self.start(command), f"{place}: $ {command}")
            else:
                _until(
                    partial(self.once, command), expected, PATIENCE if "soon" in words else 0, f"{place}: $ {command}"
                )

    def once(self, command: str) -> str:
        variables, arguments = _of_belvedere(command)
        if self.spark is not None and arguments is not None:
            environment = {**_environment(), **variables}
            with patch.dict(os.environ, environment), chdir(self.folder), patch.object(sys, "stdin", io.StringIO()):
                ended = here(self.spark, *arguments)
            return ended.stdout + ended.stderr
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return done.stdout + done.stderr

    def start(self, command: str) -> Path:
        printed = self.folder / f".terminal-{len(self.staying)}"
        with printed.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.staying.append((process, printed))
        return printed

    def expect(self, expected: str, printed: Path, place: str) -> None:
        _until(lambda: printed.read_text(encoding="utf-8"), expected, PATIENCE, place)

    def end(self) -> None:
        for process, _ in self.staying:
            process.send_signal(signal.SIGINT)
        for process, _ in self.staying:
            process.wait(60)
        self.staying.clear()


def _of_belvedere(command: str) -> tuple[dict[str, str], list[str] | None]:
    """The variables before a command, and its arguments if it is a command of `belvedere` and nothing of the shell's
    beside."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    count = next((n for n, word in enumerate(words) if not re.fullmatch(r"\w+=.*", word)), len(words))
    variables = dict(word.split("=", 1) for word in words[:count])
    is_ours = words[count : count + 1] == ["belvedere"] and not any(re.fullmatch(r"[();<>|&]+", word) for word in words)
    return variables, words[count + 1 :] if is_ours else None


@contextmanager
def terminals(folder: Path, spark: Any = None) -> Iterator[Terminals]:
    """Terminals whose commands end with the page."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    opened = Terminals(folder, port, spark)
    try:
        yield opened
    except AssertionError as error:
        for _, printed in opened.staying:
            error.add_note(f"printed by a command that stays:\n{printed.read_text(encoding='utf-8')}")
        raise
    finally:
        opened.end()


def _parted(part: str) -> tuple[str, str]:
    """A command, which goes on after a backslash and within quotes, and what it prints."""
    lines = part.split("\n")
    count = 1
    while count < len(lines) and ("\n".join(lines[:count]).count("'") % 2 or lines[count - 1].endswith("\\")):
        count += 1
    return "\n".join(lines[:count]), "\n".join(lines[count:])


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}


def _until(printed: Callable[[], str], expected: str, seconds: float, place: str) -> None:
    end = time.monotonic() + seconds
    while not matches(expected, text := printed()):
        assert time.monotonic() < end, f"{place}\nexpected:\n{expected}\nprinted:\n{text}"
        time.sleep(0.3)


def matches(expected: str, printed: str) -> bool:
    """Whether the output is as on the page: spaces at the ends of lines do not count, `...` stands for any lines."""
    lines = [line.rstrip() for line in expected.strip().split("\n")]
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in lines
    )
    text = "".join(line.rstrip() + "\n" for line in printed.strip().split("\n"))
    return re.fullmatch(pattern, text) is not None
