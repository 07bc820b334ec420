"""A remote folder of state: in an object store, or on any other file system that Arrow supports.

In: an address such as `s3://bucket/folder`. Out: whole files, written under new names, listed and deleted, and read
whole or by ranges of bytes. Nothing is renamed, appended to or updated. Credentials, region and endpoint come from the
environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...) or, except credentials, from the address
(`?region=...&endpoint_override=...`). Failed requests are retried.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from belvedere.errors import BelvedereError, fail

OBJECT_STORES = ("s3", "gcs", "abfs")
PART = ".part"
_CHUNK = 8 << 20
WAITS = (0.05, 0.2, 0.8)
"""Seconds before each retry of a request."""
_LASTING = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "HTTP status 403", "No such bucket")
"""Words of errors for which a retry is useless."""
V = TypeVar("V")


def _repeated(work: Callable[[], V]) -> V:
    """Run the work, and retry it after a short wait if the error may be temporary."""
    for wait in WAITS:
        try:
            return work()
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            if any(word in str(error) for word in _LASTING):
                raise
        time.sleep(wait)
    return work()


@dataclass(frozen=True)
class Remote:
    """The folder `id` below an address."""

    address: str
    id: str

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        system, path = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", self.address))
        base = f"{path.rstrip('/')}/{self.id}"
        if system.type_name not in OBJECT_STORES:
            system.create_dir(base, recursive=True)
        return system, base

    def put(self, path: Path) -> None:
        """Write a local file under its name. Raises B7064."""

        def write() -> None:
            system, base = self._place
            with path.open("rb") as source, system.open_output_stream(f"{base}/{path.name}") as sink:
                shutil.copyfileobj(source, sink, _CHUNK)

        with self._reaching(path.name):
            _repeated(write)

    def get(self, path: Path) -> None:
        """Read the file of that name into a local one, which is written completely or not at all.

        Raises FileNotFoundError, B7064.
        """
        part = path.with_name(f"{uuid.uuid4().hex}{PART}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._reaching(path.name):
                _repeated(lambda: self._copy(path.name, part))
                part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def fetch(self, name: str, offset: int, length: int) -> bytes:
        """Read a range of a file. Raises FileNotFoundError, B7064."""

        def read() -> bytes:
            system, base = self._place
            with system.open_input_file(f"{base}/{name}") as file:
                found: bytes = file.read_at(length, offset)
                return found

        with self._reaching(name):
            return _repeated(read)

    def names(self) -> list[str]:
        """Return the names of the existing files; empty if they cannot be listed."""
        with contextlib.suppress(OSError, pa.ArrowException):
            system, base = self._place
            return [f.base_name for f in system.get_file_info(fs.FileSelector(base, allow_not_found=True))]
        return []

    def delete(self, names: Iterable[str]) -> None:
        """Delete files. The next start deletes those that cannot be deleted now."""
        for name in names:
            with contextlib.suppress(OSError, pa.ArrowException):
                system, base = self._place
                system.delete_file(f"{base}/{name}")

    def _copy(self, name: str, part: Path) -> None:
        system, base = self._place
        with system.open_input_stream(f"{base}/{name}") as source, part.open("wb") as sink:
            shutil.copyfileobj(source, sink, _CHUNK)

    @contextlib.contextmanager
    def _reaching(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(name, error) from error

    def _unreachable(self, name: str, error: Exception) -> BelvedereError:
        hint = "check the address, its rights and the network, and start again: the store is at its last good epoch"
        return fail(
            "B7064",
            f"the state file {name} in {self.address} could not be written or read",
            hint=hint,
            detail=str(error),
        )
