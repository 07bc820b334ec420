"""The console's own code, where there is a JavaScript engine to run it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import belvedere.console

CODE = (Path(belvedere.console.__path__[0]) / "console.js").read_text(encoding="utf-8")
SURROUNDINGS = """
const said = [], by = () => ({ set textContent(text) { said.push(text); } });
const answers = [new Error("away"), { ok: false }, { ok: true }];
globalThis.fetch = async (path) => {
  said.push(path);
  const answer = answers.shift();
  if (answer instanceof Error) throw answer;
  return answer;
};
globalThis.setTimeout = (wake) => queueMicrotask(wake);
whenReady().then(() => console.log(JSON.stringify(said)));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_it_waits_for_the_first_epoch_before_it_asks() -> None:
    found = re.search(r"async function whenReady\(\) \{.*?\n\}\n", CODE, re.DOTALL)
    assert found is not None
    done = subprocess.run(["node", "-e", found.group() + SURROUNDINGS], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == ["readyz", "the API does not answer", "readyz", "waiting for the first epoch", "readyz"]


def test_nothing_is_asked_before_that() -> None:
    """Each call of `run` when the page loads, or by the timer, comes after `whenReady`."""
    assert "whenReady().then(run)" in CODE
    start = CODE[CODE.index("describe().then(() => {") :]
    assert "run();" not in start
