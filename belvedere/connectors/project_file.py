"""Read the project file with the keys of all connectors.

In: the directory of a script. Out: `ProjectSettings`. `belvedere.project.settings` parses the other keys of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from belvedere.connectors.registry import known_connectors
from belvedere.project import settings
from belvedere.project.settings import ProjectSettings


def load_project(directory: Path | str, environ: Mapping[str, str] | None = None) -> ProjectSettings:
    """Read `belvedere.toml` of a directory. Invalid settings are left out and listed in `diagnostics`.

    The environment's BELVEDERE_PROFILE chooses a profile; raises B9108 if the file does not have it.
    """
    return settings.load_project(directory, known_connectors(), environ)


def read_project(text: str, directory: Path, file: Path, environ: Mapping[str, str]) -> ProjectSettings:
    """Read a project from the text of its file."""
    return settings.read_project(text, directory, file, known_connectors(), environ)
