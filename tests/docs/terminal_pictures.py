"""A picture of a terminal with the output of a command, as SVG.

In: a command, a folder. Out: the text of an SVG without fonts of other hosts, and what of it must stay as it is: words
and colours, not figures, which differ from run to run.
"""

from __future__ import annotations

import html
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ

WIDTH = 120
REDRAWN = re.compile(r"(?:\r|\x1b\[2K|\x1b\[1A|\x1b\[\?25[lh])+")
"""What a table that is redrawn writes before it writes itself again."""
FONTS = re.compile(r"@font-face \{.*?\}\n", re.DOTALL)
PAINTED = re.compile(r'<text class="[\w-]*-(r\d+)"[^>]*>(.*?)</text>')
STYLE = re.compile(r"\.[\w-]+-(r\d+) \{ ([^}]*) \}")
FIGURES = re.compile(r"\d[\d,.:-]*(?: [mµ]s\b)?")


def printed(
    command: str, folder: Path, steps: Sequence[tuple[str, Callable[[], object]]] = (), seconds: float = 120
) -> str:
    """What a command prints into a terminal, of what is redrawn the last state. A step is done as soon as its text
    stands there; after the last one comes Ctrl-C."""
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, pack("HHHH", 40, WIDTH, 0, 0))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "BELVEDERE_PROGRESS")}
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**environment, "PATH": path, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(follower)
    text, end = _read(leader, process, list(steps), time.monotonic() + seconds), time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    os.close(leader)
    return text


def _read(
    leader: int, process: subprocess.Popen[bytes], steps: list[tuple[str, Callable[[], object]]], end: float
) -> str:
    read = b""
    while time.monotonic() < end:
        if not select.select([leader], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(leader, 65_536)
        except OSError:  # the other side is closed
            break
        read += part
        if steps and steps[0][0] in last_state(read.decode(errors="replace")):
            steps.pop(0)[1]()
            if not steps:
                process.send_signal(signal.SIGINT)
    return last_state(read.decode())


def last_state(text: str) -> str:
    """What stands on the terminal in the end: what is printed before the first redrawing, and after the last."""
    states = [s for s in REDRAWN.split(text.replace("\r\n", "\n")) if s.strip()]
    if len(states) < 2:
        return "".join(states)
    return states[0] + "\n" * (not states[0].endswith("\n")) + states[-1]


def picture(title: str, text: str) -> str:
    """The SVG of a terminal with this text and a prompt above it."""
    from rich.console import Console
    from rich.terminal_theme import SVG_EXPORT_THEME
    from rich.text import Text

    shown = Text.from_ansi(f"$ {title}\n{text.rstrip()}")
    width = min(max(100, *(line.cell_len for line in shown.split())), WIDTH)
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown)
    made = FONTS.sub("", console.export_svg(title="", theme=SVG_EXPORT_THEME, unique_id="terminal"))
    return re.sub(r"[ \t]+$", "", made.replace("Fira Code, monospace", "monospace"), flags=re.MULTILINE)


def meaning(svg: str) -> list[tuple[str, str]]:
    """Words with their colours, in order; figures, spaces and the lengths of lines of tables do not count."""
    styles = dict(STYLE.findall(svg))
    words = []
    for style, text in PAINTED.findall(svg):
        plain = re.sub(r"([─━═])+", r"\1", FIGURES.sub("0", html.unescape(text).replace("\xa0", " ")))
        words += [(styles[style], word) for word in plain.split()]
    return words
