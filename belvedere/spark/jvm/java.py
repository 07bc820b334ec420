"""Finds the Java for Spark 4.3: version 17 or 21, with the module `jdk.incubator.vector`.

In: the environment (JAVA_HOME, PATH) and the places where systems install Java. Out: the home directory, or a
diagnostic that explains how to install one. It installs nothing and starts no process. `python -m
belvedere.spark.jvm.java` prints the home.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from belvedere.errors import BelvedereError, fail

VERSIONS = (17, 21)
MODULE = "jdk.incubator.vector"
PLACES = ("/usr/lib/jvm/*", "/opt/java/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")
HINT = (
    "install OpenJDK 17 or 21 (Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`, Fedora: "
    "`dnf install java-21-openjdk-headless`, macOS: `brew install openjdk@21`), or set JAVA_HOME to one that you have"
)


def find_java(environment: Mapping[str, str] | None = None, places: Iterable[str] = PLACES) -> Path:
    """Return the home of the first usable Java: JAVA_HOME, then the `java` on PATH, then the usual places.

    Raises a diagnostic B7901 that names every Java it found and why each is not usable.
    """
    refused: dict[Path, str] = {}
    for home in _candidates(os.environ if environment is None else environment, places):
        reason = why_unusable(home)
        if reason is None:
            return home
        refused.setdefault(home, reason)
    seen = "; ".join(f"{home}: {reason}" for home, reason in refused.items())
    raise fail("B7901", "no Java 17 or 21 was found, and Spark needs one", detail=seen or None, hint=HINT)


def use_java() -> Path:
    """Set JAVA_HOME for the Spark that this process starts, and return it."""
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    return home


def why_unusable(home: Path) -> str | None:
    """Return why Spark cannot run on this home, or None if it can.

    Reads the `release` file that every Java contains.
    """
    if not os.access(home / "bin" / "java", os.X_OK):
        return "has no bin/java"
    release = home / "release"
    if not release.is_file():
        return "has no `release` file with its version"
    text = release.read_text(errors="replace")
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    version = int(found.group(1)) if found else 0
    if version not in VERSIONS:
        return f"is version {version or 'unknown'}"
    modules = re.search(r'^MODULES="([^"]*)"', text, re.MULTILINE)
    if modules and MODULE not in modules.group(1).split():
        return f"lacks the module {MODULE}"
    return None


def _candidates(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for place in places:
        root, _, pattern = place.partition("*")
        yield from sorted(Path(root).glob("*" + pattern)) if Path(root).is_dir() else ()


def main() -> int:
    """Print the home, or on stderr what is missing."""
    try:
        print(find_java())
    except BelvedereError as error:
        diagnostic = error.diagnostics[0]
        print(f"error[{diagnostic.code}]: {diagnostic.message}", file=sys.stderr)
        if diagnostic.detail:
            print(f"  looked at: {diagnostic.detail}", file=sys.stderr)
        print(f"  hint: {diagnostic.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
