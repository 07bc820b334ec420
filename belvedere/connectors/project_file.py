"""Read the project file with the keys of all connectors.

In: the directory of a script. Out: `ProjectSettings`. What the file says apart from connectors is in `belvedere.project.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from belvedere.connectors.registry import known_connectors
from belvedere.project import settings
from belvedere.project.settings import ProjectSettings


def load_project(directory: Path | str, environ: Mapping[str, str] | None = None) -> ProjectSettings:
    """Read `belvedere.toml` of a directory; what is wrong in it is in `diagnostics`, and left out.

    The environment's BELVEDERE_PROFILE chooses a profile; raises B9108 where the file does not have it.
    """
    return settings.load_project(directory, known_connectors(), environ)


def read_project(text: str, directory: Path, file: Path, environ: Mapping[str, str]) -> ProjectSettings:
    """A project from the text of its file."""
    return settings.read_project(text, directory, file, known_connectors(), environ)
