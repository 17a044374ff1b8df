"""The image and the manifest of the service: what they say is done here, without a container."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateward import cli, sync
from stateward.server.keys import new_key, storing
from stateward.server.settings import PORT, ServeSettings, read_settings
from stateward.world import World

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "Containerfile"
MANIFEST = ROOT / "deploy" / "kubernetes" / "service.yaml"
PATIENCE = 60.0


def instructions() -> list[list[tuple[str, str]]]:
    """Those of each stage."""
    text = re.sub(r"^#.*\n", "", FILE.read_text("utf-8"), flags=re.M).replace("\\\n", " ")
    stages: list[list[tuple[str, str]]] = []
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        if stages:  # ahead of the first, there is the base image's name alone
            stages[-1].append((word, " ".join(rest.split())))
    return stages


def last(word: str) -> str:
    """What the finished image has."""
    return [rest for each, rest in instructions()[-1] if each == word][-1]


def manifest(kind: str) -> Any:
    (found,) = [
        each for each in yaml.safe_load_all(MANIFEST.read_text("utf-8")) if each["kind"] == kind
    ]
    return found


def container() -> Any:
    (found,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def configured() -> ServeSettings:
    given = {"STATEWARD_URL": "sqlite:///agents.db"}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(manifest("ConfigMap")["data"]["serve.toml"])
        file.flush()
        return read_settings(file.name, {}, given)


# --- what they say ----------------------------------------------------------------------


def test_the_container_file_passes_its_linter() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    ran = subprocess.run([linter, "--no-color", FILE], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_image_is_made_of_what_is_here_and_holds_no_secret() -> None:
    build, image = instructions()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = re.search(r'"\.\[(.*?)\]"', dict(build)["RUN"])
    assert extras is not None
    assert {"server", "jwt"} <= set(extras[1].split(",")) <= set(project["optional-dependencies"])
    copied = [rest.split()[:-1] for word, rest in build if word == "COPY"]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
    words = [word for word, _ in image]
    assert words.count("COPY") == 1, "the sources and pip's caches stay behind"
    assert words.index("COPY") < words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words
    assert "ARG" not in words
    assert image[0] == ("FROM", "${BASE}"), (
        "one base for both, which a build can name by its digest"
    )
    assert build[0] == ("FROM", "${BASE} AS build")
    assert not re.search("password|secret|token|key", last("ENV"), re.I)


def test_image_manifest_and_command_agree() -> None:
    command = json.loads(last("ENTRYPOINT"))
    assert command == ["stateward"]
    name, options = cli.read(json.loads(last("CMD")))
    assert (name, options.host, options.port) == ("serve", "0.0.0.0", None)
    assert int(last("EXPOSE")) == PORT
    pod, one = manifest("Deployment")["spec"]["template"]["spec"], container()
    name, options = cli.read(one["args"])
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["mountPath"]: volumes[each["name"]] for each in one["volumeMounts"]}
    config = Path(options.config)
    assert (
        mounts[str(config.parent)]["configMap"]["name"] == manifest("ConfigMap")["metadata"]["name"]
    )
    assert config.name in manifest("ConfigMap")["data"]
    settings = configured()
    assert settings.host == "0.0.0.0"
    (port,) = one["ports"]
    (outside,) = manifest("Service")["spec"]["ports"]
    assert port["containerPort"] == settings.port == PORT == outside["port"]
    assert outside["targetPort"] == port["name"] == one["livenessProbe"]["httpGet"]["port"]
    assert one["livenessProbe"]["httpGet"]["path"] == "/live"
    user, group = last("USER").split(":")
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == int(user) > 0
    assert pod["securityContext"]["runAsGroup"] == int(group) > 0
    assert one["securityContext"]["readOnlyRootFilesystem"]
    assert not one["securityContext"]["allowPrivilegeEscalation"]
    assert one["resources"]["limits"]["memory"]
    leaving = int(one["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= settings.stop_seconds + leaving
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert labels == manifest("Service")["spec"]["selector"]
    assert labels == manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]


def test_all_that_is_secret_comes_from_the_secret() -> None:
    env = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container()["env"]}
    said = re.search(r"^#   kubectl create secret generic (.*)$", MANIFEST.read_text("utf-8"), re.M)
    assert said is not None
    for reference in env.values():
        assert said[1].startswith(f"{reference['name']} ")
        assert f"--from-literal={reference['key']}=" in said[1]
    line = container()["readinessProbe"]["exec"]["command"][-1]
    assert set(re.findall(r"\$(\w+)", line)) < set(env)


# --- what they do -----------------------------------------------------------------------


def unprivileged(python: Path) -> list[str]:
    """What runs a command as the image's user; nothing, where only the tests' own user can be.

    That user may have no way to this Python, which may be root's: it is let read all, and no more.
    """
    ids = ["setpriv", "--reuid", "10001", "--regid", "10001", "--clear-groups"]
    reading = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    if os.geteuid() == 0 and shutil.which("setpriv"):
        for words in ([*ids, *reading], ids):
            ran = subprocess.run(
                [*words, python, "-c", "import stateward.cli"], capture_output=True
            )
            if ran.returncode == 0:
                return words
    return []


@pytest.fixture
def folder() -> Iterator[Path]:
    """Which everybody may look into, and nobody but its owner write to."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def serve_as_the_manifest_says(python: Path, folder: Path) -> None:
    """As the image's user, on a file system that it cannot write to, but for the volume."""
    data, config = folder / "data", folder / "serve.toml"
    data.mkdir()
    if os.geteuid() == 0:
        os.chown(data, 10001, 10001)
    config.write_text(manifest("ConfigMap")["data"]["serve.toml"], "utf-8")
    url = f"sqlite:///{data}/agents.db"
    nobody = unprivileged(python)
    stateward = [*nobody, python, "-m", "stateward"]
    env = {"PATH": f"{python.parent}:{os.environ['PATH']}", "STATEWARD_URL": url}
    env |= dict(pair.split("=") for pair in last("ENV").split() if not pair.startswith("PATH="))
    words = [str(config) if word.endswith(".toml") else word for word in container()["args"]]
    with (folder / "complaints").open("w+b") as complaints:
        process = subprocess.Popen(
            [*stateward, *words, "--host", "127.0.0.1", "--port", "0", "--json"],
            env=env,
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, (folder / "complaints").read_text()
            here = json.loads(line)["url"]
            _ask_probes(here, url, nobody, env)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE)
            process.stdout.close()
    complaints = (folder / "complaints").read_text().splitlines()
    assert all("[request_refused]" in line for line in complaints), "the wrong key is named"
    assert {path.name for path in folder.iterdir()} <= {"data", "serve.toml", "complaints", "image"}
    if nobody:
        assert {path.stat().st_uid for path in data.iterdir()} == {10001}


def _ask_probes(here: str, url: str, nobody: list[str], env: dict[str, str]) -> None:
    path = container()["livenessProbe"]["httpGet"]["path"]
    with urllib.request.urlopen(f"{here}{path}", timeout=PATIENCE) as answer:
        assert answer.status == 200
    secret, record = new_key(World(), "read", ("probe",))
    with sync.open(url, heartbeat=None) as store:
        store.sections["workflows"].execute([storing(record, 0, World().new_op())])
    address = here.removeprefix("http://")
    *shell, ready = container()["readinessProbe"]["exec"]["command"]
    ready = ready.replace(f"127.0.0.1:{PORT}", address)
    ready = ready.replace("exec stateward", f"exec {env['PATH'].split(':')[0]}/python -m stateward")
    for key, code in ((secret, cli.OK), (secret[:-1] + "!", cli.FAILED)):
        ran = subprocess.run(
            [*nobody, *shell, ready], env=env | {"PROBE_KEY": key}, cwd="/", capture_output=True
        )
        assert ran.returncode == code, ran.stderr
        assert secret.encode() not in ran.stdout + ran.stderr
    _, _, check = last("HEALTHCHECK").partition("CMD ")
    healthy = [word.replace(f"127.0.0.1:{PORT}", address) for word in json.loads(check)]
    assert subprocess.run([*nobody, *healthy], env=env, cwd="/").returncode == 0


def test_the_service_runs_as_nobody_on_a_file_system_that_it_cannot_write_to(folder: Path) -> None:
    serve_as_the_manifest_says(Path(sys.executable), folder)


@pytest.mark.soak
def test_the_image_is_built_and_runs(folder: Path) -> None:
    """Its commands, in a folder of their own instead of at the root."""
    image, sources = folder / "image", folder / "image" / "src"
    sources.mkdir(parents=True)
    for word, rest in instructions()[0]:
        if word == "COPY":
            *names, target = rest.split()
            for name in names:
                to = sources / target / name if target.endswith("/") else sources / target
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, to)
        elif word == "RUN":
            line = rest.replace("/opt/stateward", shlex.quote(str(image / "opt")))
            line = re.sub(r"(?<![-/\w])python ", f"{shlex.quote(sys.executable)} ", line)
            subprocess.run(["sh", "-ec", line], cwd=sources, check=True, capture_output=True)
    shutil.rmtree(sources)
    before = {path: path.stat().st_mtime_ns for path in image.rglob("*")}
    serve_as_the_manifest_says(image / "opt" / "bin" / "python", folder)
    assert {path: path.stat().st_mtime_ns for path in image.rglob("*")} == before
