"""`belvedere test`: what it says, how it ends, what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from belvedere.cli import run

FINE = """About these tests.

=== a plan
~~~
CREATE TABLE T (a INT)
V := SELECT a FROM T
~~~
--- plan V
project a, (_uid)
  scan T
"""


def write(folder: Path, text: str, name: str = "it.test") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_what_is_as_expected_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, FINE)
    assert run(["test", str(tmp_path)]) == 0
    assert "1 scenario in 1 file: all passed" in capsys.readouterr().out


def test_a_difference_is_shown_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FINE.replace("scan T", "scan U"))
    assert run(["test", path]) == 1
    out = capsys.readouterr().out
    assert f"{path}:8: plan V" in out
    assert "    -   scan U\n    +   scan T" in out
    assert "1 of 1 failed" in out


def test_update_writes_what_is_and_keeps_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commented = FINE.replace("project a, (_uid)\n  scan T\n", "# above\nscan U\n\n# below\n") + "--- sql V\n# kept\n"
    path = write(tmp_path, commented)
    assert run(["test", path, "--update"]) == 0
    assert "1 of 1 updated" in capsys.readouterr().out
    text = Path(path).read_text(encoding="utf-8")
    assert "--- plan V\n# above\nproject a, (_uid)\n  scan T\n\n# below\n--- sql V\n# kept\nCREATE VIEW V AS" in text
    assert text.startswith("About these tests.")
    assert run(["test", path]) == 0
    assert Path(path).read_text(encoding="utf-8") == text


def test_results_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FINE.replace("scan T", "scan U"))
    assert run(["test", path, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False
    scenario = result["files"][0]["scenarios"][0]
    assert (scenario["title"], scenario["ok"]) == ("a plan", False)
    assert scenario["failures"][0]["line"] == 8
    assert scenario["failures"][0]["actual"] == ["project a, (_uid)", "  scan T"]


def test_results_for_ci_services(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FINE.replace("scan T", "scan U").replace("a plan", 'a <plan> & "ünï\x01"'))
    fine = write(tmp_path, FINE, "fine.test")
    out = tmp_path / "out.xml"
    assert run(["test", str(tmp_path), "--junit", str(out)]) == 1
    root = ElementTree.parse(out).getroot()
    counts = {s.get("name"): (s.get("tests"), s.get("failures"), s.get("errors")) for s in root}
    assert counts == {path: ("1", "1", "0"), fine: ("1", "0", "0")}
    (case,) = root.findall(f"testsuite[@name='{path}']/testcase")
    assert (case.get("name"), case.get("file"), case.get("line")) == ('a <plan> & "ünï\ufffd"', path, "3")
    assert f"{path}:8: plan V" in (case.findtext("failure") or "")
    assert "all passed" not in capsys.readouterr().out
    assert run(["test", fine, "--junit", str(out)]) == 0
    write(tmp_path, "=== no script\n--- nonsense\n")
    assert run(["test", path, "--junit", str(out)]) == 1
    (error,) = ElementTree.parse(out).getroot().iter("error")
    assert "B94" in (error.get("message") or "")
    assert run(["test", fine, "--junit", str(tmp_path / "no" / "out.xml")]) == 2


def test_no_tests_is_a_wrong_command_line(tmp_path: Path) -> None:
    assert run(["test", str(tmp_path)]) == 2
    assert run(["test", str(tmp_path / "none.test")]) == 2


def test_a_script_that_does_not_compile_fails_unless_its_diagnostics_are_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = "=== wrong\n~~~\nV := SELECT * FROM Nowhere\n~~~\n"
    assert run(["test", write(tmp_path, broken)]) == 1
    assert "table `Nowhere` is not defined" in capsys.readouterr().out
    path = write(tmp_path, broken + "--- diagnostics\n")
    assert run(["test", path, "--update"]) == 0
    assert "error[B2001]" in Path(path).read_text(encoding="utf-8")
    assert run(["test", path]) == 0


def test_a_script_in_a_file(tmp_path: Path) -> None:
    write(tmp_path, "CREATE TABLE T (a INT)\nV := SELECT a FROM T", "it.sqrl")
    assert run(["test", write(tmp_path, "=== it\nscript: it.sqrl\n--- plan V\nproject a, (_uid)\n  scan T\n")]) == 0
    assert run(["test", write(tmp_path, "=== it\nscript: none.sqrl\n--- plan V\n")]) == 1


MALFORMED = {
    "nothing here": ("B9401", 1),
    "=== a\n--- step\n": ("B9402", 1),
    "=== a\nscript: a.sqrl\n~~~\nV := SELECT 1 AS a\n~~~\n": ("B9402", 1),
    "=== a\n~~~\nV := SELECT 1 AS a\n": ("B9402", 2),
    "=== a\n~~~\n~~~\n--- stepp\n": ("B9403", 4),
    "=== a\n~~~\n~~~\n--- clock tomorrow\n": ("B9404", 4),
    "=== a\n~~~\n~~~\n--- rows V\na | b\n1\n": ("B9405", 6),
    "=== a\n~~~\n~~~\n--- insert T\n{1}\n": ("B9405", 5),
    "=== a\n~~~\n~~~\n--- insert T\n": ("B9406", 4),
    "=== a\n~~~\n~~~\n--- step\n# fine\nwrong\n": ("B9406", 6),
    "=== a\n~~~\n~~~\n--- answer\n{}\n": ("B9407", 4),
}


def test_a_script_above_the_first_title_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["test", write(tmp_path, "script: it.sqrl\n\n=== a\n--- plan V\n")]) == 1
    assert "below the title" in capsys.readouterr().err


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_file_is_told_with_its_place(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = MALFORMED[text]
    path = write(tmp_path, text)
    assert run(["test", path]) == 1
    error = capsys.readouterr().err
    assert f"error[{code}]" in error
    assert f"{path}:{line}:1" in error
    assert run(["test", path, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["diagnostics"][0]["code"] == code


def test_a_scenario_writes_only_into_its_own_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["test", write(tmp_path, "=== a\n~~~\nV := SELECT 1 AS a\n~~~\n--- file ../x.txt\nhello\n")]) == 1
    assert "B9408" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["it.test"]


@pytest.mark.spark
def test_every_kind_of_failure_is_told(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """=== failing
~~~
CREATE TABLE T (a INT, b DOUBLE, PRIMARY KEY (a))
_P := SELECT a FROM T
V := SELECT a, b FROM T
~~~
--- insert T
a | b
1 | 0.1
2 | null
--- step
--- error
B6001
--- rows V
a | b
2 | null
1 | 0.10000000001
--- rows V ordered
b
null
--- rows _P
--- rows V
c
--- changes V
--- graphql
{ v { a } }
--- answer
{"data": {"v": [{"a": 1}]}}
--- insert T
{"a": "x"}
--- rows V
"""
    path = write(tmp_path, text)
    assert run(["test", path]) == 1
    out = capsys.readouterr().out
    failed = [line.partition(f"{path}:")[2] for line in out.split("\n") if line.startswith(f"  {path}:")]
    assert failed == [
        "12: error",
        "18: rows V ordered",
        "21: rows _P",
        "22: rows V",
        "24: changes V",
        "27: answer",
        "29: insert T",
    ]
    assert "B6001: row 1 of \"T\": 'x' is not an INT" in out
    assert "B7050" in out
    assert run(["test", path, "--batch", "--only", "nothing like this"]) == 0
