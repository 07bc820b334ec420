"""The files of `deploy/` are as their tools want them; what needs no tool is looked at everywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from belvedere.connectors.project_file import read_project
from tests.run.processes import status_of, wait_for

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm"
PROJECT = {
    "shop.sqrl": "CREATE TABLE T (k INT PRIMARY KEY);\nV := SELECT count(*) AS n FROM T;\n",
    "belvedere.toml": 'store = "sqlite:////tmp/a.db"\n[api]\nhost = "0.0.0.0"\ntoken = "${env:BELVEDERE_TOKEN}"\n',
}


def run(*command: str | Path, **named: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **named)


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


# --- systemd


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = tool("systemd-analyze")
    text = (DEPLOY / "belvedere.service").read_text(encoding="utf-8")
    here = Path(sys.executable).with_name("belvedere")
    (tmp_path / "belvedere.service").write_text(text.replace("/opt/belvedere/bin/belvedere", str(here)))
    done = run(verify, "verify", "--man=no", tmp_path / "belvedere.service")
    assert (done.returncode, done.stderr) == (0, "")


# --- Docker


def test_the_image_is_made_of_what_is_there(tmp_path: Path) -> None:
    """`.dockerignore` lets in all that the wheel is made of, and nothing of a user's."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requested = {
        "pyproject.toml",
        "LICENSE",
        project["project"]["readme"],
        *project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"],
    }
    assert {line[1:] for line in lines if line.startswith("!")} == requested
    for name in requested:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", tmp_path]
    done = run(sys.executable, "-m", "pip", "wheel", *options, tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.whl"))


def test_the_commands_of_compose_are_ours() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    ours = compose["services"]["belvedere"]
    assert (ROOT / "deploy" / ours["build"]["context"] / ours["build"]["dockerfile"]).is_file()
    named = {a for a in ours["command"] if a.startswith("--")}
    assert named <= options_of(ours["command"][0])
    comment = re.findall(r"^#     (.*)$", (DEPLOY / "compose.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    toml = "\n".join(comment[1:])
    variables = dict.fromkeys(ours["environment"], "x") | {"BELVEDERE_PROFILE": "prod"}
    project = read_project(toml, ROOT, ROOT / "belvedere.toml", variables)
    assert (project.diagnostics, project.store) == ((), "postgresql://belvedere:x@store/belvedere")
    assert project.store.split("@")[1] == f"store/{compose['services']['store']['environment']['POSTGRES_DB']}"


def options_of(command: str) -> set[str]:
    return set(re.findall(r"--[a-z-]+", run(sys.executable, "-m", "belvedere.cli", command, "--help").stdout))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_image_serves_a_project(tmp_path: Path) -> None:
    docker = tool("docker")
    if run(docker, "info").returncode != 0:
        pytest.skip("no Docker daemon answers here")
    built = run(docker, "build", "-q", "-f", DEPLOY / "Dockerfile", "-t", "belvedere:test", ROOT)
    assert built.returncode == 0, built.stderr
    tmp_path.chmod(0o777)
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    options = [
        "-v",
        f"{tmp_path}:/project",
        "-e",
        "BELVEDERE_TOKEN=secret",
        "-p",
        "127.0.0.1::8080",
        "--read-only",
        "--tmpfs",
        "/tmp",
    ]
    started = run(
        docker, "run", "-d", *options, "belvedere:test", "run", "shop.sqrl", "--host", "0.0.0.0", "--port", "8080"
    )
    assert started.returncode == 0, started.stderr
    container = started.stdout.strip()
    try:
        address = run(docker, "port", container, "8080").stdout.strip()
        wait_for(lambda: status_of(f"http://{address}/readyz") == 200, "no epoch was committed", 180)
        assert status_of(f"http://{address}/schema.graphql") == 401
        assert run(docker, "exec", container, "id", "-u").stdout.strip() == "10001"
        begun = time.monotonic()
        run(docker, "stop", "-t", "60", container)
        assert time.monotonic() - begun < 30
        assert run(docker, "inspect", "-f", "{{.State.ExitCode}}", container).stdout.strip() == "0"
    finally:
        run(docker, "rm", "-f", container)


# --- Helm


def test_templates_read_what_values_have() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    texts = [p.read_text(encoding="utf-8") for p in sorted((CHART / "templates").iterdir())]
    read = {tuple(m.split(".")) for text in texts for m in re.findall(r"\.Values\.([A-Za-z.]+)", text)}
    for path in read:
        found = values
        for name in path:
            assert name in found, path
            found = found[name]
    tops = {path[0] for path in read}
    assert tops == set(values)
    for name in ("image", "storage", "service", "ingress", "readers"):
        assert {path[1] for path in read if path[0] == name} == set(values[name])


def test_the_pods_run_our_commands() -> None:
    text = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    named = set(re.findall(r"- (--[a-z]+)=", text))
    assert named
    for command in ("run", "serve"):
        assert named <= options_of(command)
    alone = set(re.findall(r"- (--[a-z]+)$", text, re.MULTILINE))
    assert alone == {"--standby"}
    assert alone <= options_of("run")
    user = re.search(r"useradd --uid (\d+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    assert user
    assert f"runAsUser: {user[1]}" in text


def test_the_charts_version_is_the_packages() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def rendered(text: str, replicas: int) -> Any:
    """The StatefulSet's own lines for a number of replicas: conditions of `$shared` alone are decided, other actions
    are texts."""
    lines, kept = list[str](), [True]
    for line in text.splitlines():
        action = re.fullmatch(r"\s*\{\{-? (if \$shared|else|end|with .*|\$shared .*|include .*) ?\}\}", line)
        if action is None:
            lines += [re.sub(r"\{\{.*?\}\}", "x", line)] * all(kept)
        elif action[1] == "if $shared":
            kept.append(replicas > 1)
        elif action[1].startswith("with"):
            kept.append(True)
        elif action[1] == "else":
            kept[-1] = not kept[-1]
        elif action[1] == "end":
            kept.pop()
    assert kept == [True]
    return list(yaml.safe_load_all("\n".join(re.sub(r"^\s*x$", "", line) for line in lines)))


def test_a_second_replica_shares_the_volume_and_is_replaced_by_hand() -> None:
    """One that waits is never ready: an update that waits for it would not end."""
    text = (CHART / "templates" / "run.yaml").read_text(encoding="utf-8")
    head, _, volumes = text.partition("  template:\n")
    (alone,) = rendered(head, 1)
    assert alone["spec"].keys() == {"replicas", "serviceName", "selector"}
    assert alone["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/component": "run"}
    claim, pair = rendered(head, 2)
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert (pair["spec"]["podManagementPolicy"], pair["spec"]["updateStrategy"]) == ("Parallel", {"type": "OnDelete"})
    own, _, templates = volumes.partition("{{- else }}")
    assert "persistentVolumeClaim" in own
    assert "volumeClaimTemplates" in templates


def test_helm_takes_the_chart(tmp_path: Path) -> None:
    helm = tool("helm")
    everything = {
        "files": PROJECT,
        "profile": "prod",
        "arguments": ["--yes"],
        "environment": {"A": "b"},
        "secretName": "shop",
        "storage": {"className": "fast"},
        "readers": {"replicas": 2},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecretName": "tls", "annotations": {"a": "b"}},
        "nodeSelector": {"disk": "ssd"},
        "podAnnotations": {"c": "d"},
    }
    (tmp_path / "values.yaml").write_text(json.dumps(everything))
    kinds = []
    (tmp_path / "pair.yaml").write_text(json.dumps({"files": PROJECT, "replicas": 2}))
    for options in ([], ["-f", str(tmp_path / "pair.yaml")], ["-f", str(tmp_path / "values.yaml")]):
        done = run(helm, "lint", "--strict", CHART, *options)
        assert done.returncode == 0, done.stdout
        made = run(helm, "template", "shop", CHART, *options)
        assert made.returncode == 0, made.stderr
        objects = [o for o in yaml.safe_load_all(made.stdout) if o]
        kinds.append(sorted(o["kind"] for o in objects))
    assert kinds[0] == ["ConfigMap", "Service", "StatefulSet"]
    assert kinds[1] == ["ConfigMap", "PersistentVolumeClaim", "Service", "StatefulSet"]
    assert kinds[2] == ["ConfigMap", "Deployment", "Ingress", "Service", "Service", "StatefulSet"]
    by_kind = {o["kind"]: o for o in objects}
    assert by_kind["ConfigMap"]["data"] == PROJECT
    for kind, role in (("StatefulSet", "run"), ("Deployment", "serve")):
        pod = by_kind[kind]["spec"]["template"]
        (container,) = pod["spec"]["containers"]
        assert container["args"][:2] == [role, "shop.sqrl"]
        assert container["args"][5:] == ["--profile=prod", *(["--yes"] if role == "run" else [])]
        assert {"name": "A", "value": "b"} in container["env"]
        mounted = {m["name"] for m in container["volumeMounts"]}
        claims = [c["metadata"]["name"] for c in by_kind[kind]["spec"].get("volumeClaimTemplates", [])]
        assert mounted == {v["name"] for v in pod["spec"]["volumes"]} | set(claims)
        assert by_kind[kind]["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
