"""Each example of a code on the site has that code, and nearly all codes that a script alone can have are shown."""

from __future__ import annotations

import sys

import pytest

from belvedere.codes import CODES
from belvedere.compiler import compile_script
from tests.docs.test_site import ROOT

sys.path.insert(0, str(ROOT / "tools" / "site"))
from made_pages import example_scripts, with_examples


@pytest.mark.thorough
def test_each_example_gives_its_code() -> None:
    found = {code: {d.code for d in compile_script(script).diagnostics} for code, script in example_scripts().items()}
    assert {code: codes for code, codes in found.items() if code not in codes} == {}
    assert set(found) <= set(CODES)


def test_codes_of_scripts_have_examples() -> None:
    of_scripts = [code for code in CODES if code[1] in "12345"]
    assert len(set(of_scripts) & set(example_scripts())) >= 0.75 * len(of_scripts)


def test_an_example_follows_the_text_of_its_code() -> None:
    page = with_examples("# B3xxx\n\n## B3031 an aggregate in WHERE\n\nText.\n\n## B9999 none\n\nMore.\n")
    assert page.index("Text.") < page.index("error[B3031]") < page.index("## B9999")
    assert page.rstrip().endswith("More.")
