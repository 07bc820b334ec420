"""Each example of a code on the site has that code, and each shown message is one that the code can write."""

from __future__ import annotations

import json
import re
import sys

import pytest

from belvedere.codes import CODES
from tests.docs.message_templates import fits
from tests.docs.test_site import ROOT

sys.path.insert(0, str(ROOT / "tools" / "site"))
from code_examples import Message, examples, messages
from made_pages import with_examples

WITHOUT = 0
"""Maximum number of codes without an example."""


@pytest.mark.thorough
def test_each_example_gives_its_code() -> None:
    printed = {code: example.run() for code, example in examples().items()}
    assert {code: text for code, text in printed.items() if code not in text} == {}


def reported(message: Message) -> list[str]:
    """Return the message, the hint and the code of what a section shows, each as a text of its own."""
    if message.printed.startswith("{"):
        answer = json.loads(message.printed)
        error = answer["errors"][0] | answer["errors"][0]["extensions"] if "errors" in answer else answer
        assert error["code"] == message.code
        return [t for t in (error.get("title", error.get("message")), error.get("hint")) if t]
    found = re.search(r"\b(B\d{4})\]?: (.+)", message.printed)
    assert found is not None
    assert found[1] == message.code
    in_one_line = re.fullmatch(r"(.+?) \((.+)\)", found[2]) if "error[" not in message.printed else None
    hint = re.search(r"^ = hint: (.+)", message.printed, re.MULTILINE)
    return [*(in_one_line.groups() if in_one_line else (found[2],)), *((hint[1],) if hint else ())]


@pytest.mark.thorough
def test_each_message_is_one_of_its_code() -> None:
    foreign = {code: [t for t in reported(message) if not fits(code, t)] for code, message in messages().items()}
    assert {code: texts for code, texts in foreign.items() if texts} == {}
    assert [code for code, message in messages().items() if not message.when.endswith(".")] == []


def test_a_message_that_no_code_writes_is_found() -> None:
    assert fits("B7019", "shop.db is not the URL of a store")
    assert not fits("B7019", "shop.db is no URL of a store")
    assert not fits("B7020", "shop.db is not the URL of a store")


def test_codes_have_examples() -> None:
    shown = {*examples(), *messages()}
    assert shown <= set(CODES)
    assert not examples().keys() & messages().keys()
    assert len(set(CODES) - shown) <= WITHOUT


def test_an_example_follows_the_text_of_its_code() -> None:
    page = with_examples("# B3xxx\n\n## B3031 an aggregate in WHERE\n\nText.\n\n## B9999 none\n\nMore.\n")
    assert page.index("Text.") < page.index("error[B3031]") < page.index("## B9999")
    assert page.rstrip().endswith("More.")
