"""The Python clients: installed once by pip into the user's cache, and run in a separate process.

In: `tests/clients/python` with its held versions. Out: what each client was told. Without pip, tests that need them are
skipped.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.api.node_clients import FOLDER

HERE = Path(__file__).parent / "python"


def installed() -> Path:
    """The folder with the packages, for this version of Python."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed: it brings the clients of Python")
    requested = HERE / "requirements.txt"
    folder = FOLDER / f"python-{hashlib.sha256(requested.read_bytes() + sys.version.encode()).hexdigest()[:16]}"
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER, ignore_cleanup_errors=True) as made:
            install = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--target",
                made,
                "-r",
                str(requested),
            ]
            subprocess.run(install, check=True, capture_output=True)
            os.chmod(made, 0o755)
            try:
                os.rename(made, folder)
            except OSError:  # another run was first
                assert folder.exists()
    return folder


def told_by_python(given: dict[str, Any]) -> dict[str, Any]:
    """What each client was told."""
    command = [sys.executable, str(HERE / "clients.py")]
    environment = {**os.environ, "PYTHONPATH": str(installed())}
    run = subprocess.run(
        command, input=json.dumps(given), env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == 0, run.stderr
    return dict(json.loads(line) for line in run.stdout.splitlines())
