"""The Java that Spark will run on is found, and one that would fail later is refused now."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.errors import BelvedereError
from belvedere.spark.jvm.java import find_java, why_unusable


def make_java(home: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("")
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2"])
def test_a_supported_version_is_usable(tmp_path: Path, version: str) -> None:
    assert why_unusable(make_java(tmp_path / "java", version)) is None


@pytest.mark.parametrize(
    ("version", "modules", "reason"),
    [
        ("25.0.1", "java.base jdk.incubator.vector", "is version 25"),
        ("1.8.0_392", "java.base jdk.incubator.vector", "is version 8"),
        ("17.0.15", "java.base", "lacks the module jdk.incubator.vector"),
    ],
)
def test_another_java_is_refused_with_its_reason(tmp_path: Path, version: str, modules: str, reason: str) -> None:
    assert why_unusable(make_java(tmp_path / "java", version, modules)) == reason


def test_java_home_comes_first_but_a_wrong_one_is_passed_over(tmp_path: Path) -> None:
    wrong, right = make_java(tmp_path / "old", "11.0.1"), make_java(tmp_path / "jvm" / "new", "21.0.1")
    found = find_java({"JAVA_HOME": str(wrong), "PATH": ""}, places=[f"{tmp_path}/jvm/*"])
    assert found == right
    assert find_java({"JAVA_HOME": str(right), "PATH": ""}, places=[]) == right


def test_path_is_followed_through_links(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, places=[]) == home


def test_none_at_all_names_what_was_looked_at_and_how_to_get_one(tmp_path: Path) -> None:
    wrong = make_java(tmp_path / "old", "25")
    with pytest.raises(BelvedereError) as raised:
        find_java({"JAVA_HOME": str(wrong), "PATH": ""}, places=[])
    diagnostic = raised.value.diagnostics[0]
    assert diagnostic.code == "B7901"
    assert diagnostic.detail == f"{wrong}: is version 25"
    assert "openjdk-17-jre-headless" in (diagnostic.hint or "")
