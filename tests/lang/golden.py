"""Golden files with cases of input and output text, readable as documentation.

A `.test` file has the outline of those that `belvedere test` runs (`belvedere.scenarios.outline`); here its sections
`--- name` are what is expected of the text alone. `pytest --update` writes the sections anew; read them in the diff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from belvedere.scenarios.outline import read_outline

FIXTURES = Path(__file__).parent.parent / "fixtures"
FENCE = "~~~"


@dataclass
class Case:
    """One case: its title, the prose before its input, the input, and the expected text by section."""

    title: str
    prose: str
    text: str
    sections: dict[str, str] = field(default_factory=dict)


def read_cases(path: Path) -> list[Case]:
    """All cases of a file."""
    return [
        Case(
            case.title,
            "".join(f"{line}\n" for line in case.prose),
            case.text or "",
            {section.name: "\n".join(section.body).strip("\n") for section in case.sections},
        )
        for case in read_outline(path.read_text(encoding="utf-8"))
    ]


def write_cases(path: Path, cases: list[Case]) -> None:
    """Write a file's cases in their form."""
    out = []
    for case in cases:
        out.append(f"=== {case.title}\n{case.prose}{FENCE}\n{case.text}{FENCE}\n")
        out += [f"--- {name}\n{body}\n" if body else f"--- {name}\n" for name, body in case.sections.items()]
        out.append("\n")
    path.write_text("".join(out).rstrip("\n") + "\n", encoding="utf-8")


def all_cases(folder: str) -> Iterator[tuple[Path, int, str]]:
    """File, number and title of each case under `tests/fixtures/<folder>`."""
    for path in sorted((FIXTURES / folder).glob("*.test")):
        for number, case in enumerate(read_cases(path)):
            yield path, number, f"{path.stem}: {case.title}"


def check_case(path: Path, number: int, produce: Callable[[str], dict[str, str]], update: bool) -> None:
    """Compare what `produce` makes of a case's input with its sections, or write them."""
    cases = read_cases(path)
    case = cases[number]
    produced = {name: body.strip("\n") for name, body in produce(case.text).items() if body.strip("\n")}
    if update:
        case.sections = produced
        write_cases(path, cases)
    assert produced == case.sections
