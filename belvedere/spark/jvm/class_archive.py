"""An archive of the classes that Spark loads. A JVM that reads them from it starts in a third of the time.

In: the present Java, this user's cache folder. Out: options of the JVM that use the archive, or write it when the JVM
ends. If the archive does not fit (another Java, other jars), Java loads classes as usual and reports nothing. `python
-m belvedere.spark.jvm.class_archive` fails while the archive is not written yet.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pyspark

from belvedere.spark.jvm.java import find_java

LIGHT = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m"
"""Options for a JVM that must start quickly: code is compiled once, without measuring how it runs.

The first compiler alone has 48 MB for its code by default. It is full after some minutes, and discarded code is
compiled again and again.
"""
SHORT = f"{LIGHT} -XX:-UseCodeCacheFlushing -XX:+UseSerialGC"
"""Options for a JVM that ends before better garbage collection would pay."""
LATER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
    " -XX:Tier4BackEdgeThreshold=400000"
)
"""Options for a JVM that runs for a long time: the second compiler waits for ten times as many calls as by default.

The code that plans queries is called a few thousand times in the first epochs, and compiling it took half of their
processor time. Loops over rows are compiled as before.
"""
QUIET = "-Xlog:cds*=off"
"""The star also includes messages with further tags."""
OPTIONS = "spark.driver.defaultJavaOptions"
MAX_WRITE_SECONDS = 180.0
"""Maximum seconds for a JVM to write the archive. It takes about 15 seconds of processor time."""
OTHERS = 3
"""Number of kept archives of other Javas and Sparks, for example of a second environment or clone."""


class ClassArchive:
    """The archive for this Java and this Spark. `path` is None if there can be none."""

    def __init__(self, folder: Path | None = None):
        self.path = None if _is_set_elsewhere() else archive_in(folder or cache_folder())

    @property
    def is_there(self) -> bool:
        return self.path is not None and self.path.is_file()

    def options(self) -> str:
        """Return the JVM's options for reading classes from the archive; empty if there is no archive."""
        return f"-XX:SharedArchiveFile={self.path} {QUIET}" if self.is_there else ""

    def writing(self) -> str | None:
        """Return the options with which a JVM writes the archive when it ends, or None if it exists or cannot be
        written."""
        if self.path is None or self.is_there or (unfinished := self._unfinished()) is None:
            return None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        return f"-XX:ArchiveClassesAtExit={unfinished} {QUIET}" if os.access(self.path.parent, os.W_OK) else None

    def written(self, is_whole: bool) -> None:
        """Record that the JVM has ended.

        The archive is valid if it `is_whole`. Of other Javas and Sparks, the latest few archives are kept.
        """
        unfinished = self._unfinished()
        if self.path is None or unfinished is None or not unfinished.is_file():
            return
        if not is_whole:
            unfinished.unlink()
            return
        unfinished.replace(self.path)
        others = [p for p in self.path.parent.glob("spark-*.jsa") if p != self.path]
        for other in sorted(others, key=lambda p: p.stat().st_mtime, reverse=True)[OTHERS:]:
            other.unlink(missing_ok=True)

    def _unfinished(self) -> Path | None:
        return None if self.path is None else self.path.with_suffix(f".{os.getpid()}")


def cache_folder() -> Path:
    """Return this user's folder for data that can be created again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "belvedere"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "belvedere"


def _is_set_elsewhere() -> bool:
    """Return whether the JVM's options are set by the environment."""
    return OPTIONS in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def archive_in(folder: Path) -> Path | None:
    """Return the archive's path, or None if the path cannot be written in Java's options.

    Raises BelvedereError if there is no Java.

    Java accepts an archive only for jars with the time and size at its creation, so a recreated environment gets
    another path.
    """
    home = find_java()
    release = (home / "release").read_text(errors="replace") if (home / "release").is_file() else ""
    found = [(str(jar), jar.stat()) for jar in sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))]
    jars = [(jar, stat.st_mtime_ns, stat.st_size) for jar, stat in found]
    name = hashlib.sha256(f"{home}\n{release}\n{pyspark.__version__}\n{jars}".encode()).hexdigest()[:16]
    path = folder.resolve() / f"spark-{name}.jsa"
    return None if any(c.isspace() or c in "\"'\\" for c in str(path)) else path


if __name__ == "__main__":
    sys.exit(ClassArchive().writing() is not None)
