"""The examples run as people copy them: far from the checkout, with the wheel and without a net."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from release import ROOT, run
from stateward import cli
from stateward.engines.registry import create_engine, parse
from stateward.world import World

FOLDER = ROOT / "examples"
STRICT = ("-W", "error")

# What each prints when all went well, and whether it needs a framework.
PRINTS = {
    "plan_with_journal": ("✓ 5 tasks done, in 10 events", False),
    "queue_worker": ("✓ 3 orders, each charged once", False),
    "langgraph_approval": ("agent: I am sorry about that. 40 paid back for o-991.", True),
    "support_desk": ("{'name': 'Noor'}; charges: 1; items stored: 14", True),
}

CELLS = """
import ast, asyncio, json, sys
import stateward

async def evaluate(tree, mode):
    found = eval(compile(tree, "cell", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), scope)
    return await found if asyncio.iscoroutine(found) else found

async def main(cells):
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        value = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        await evaluate(tree, "exec")
        if value is not None:
            print(json.dumps(await evaluate(ast.Expression(value.value), "eval")))

scope = {}
notebook = json.load(open(sys.argv[1], encoding="utf-8"))
asyncio.run(main([cell for cell in notebook["cells"] if cell["cell_type"] == "code"]))
"""

CHAT = """
import runpy, sys
from fastapi.testclient import TestClient

with TestClient(runpy.run_path(sys.argv[1])["app"]) as client:
    for key in ("request-1", "request-1", "request-2"):
        headers = {"X-User": "u-42", "Idempotency-Key": key}
        print(client.post("/chat/s-1", headers=headers, json={"text": "My order?"}).json())
"""


def copied(name: str, folder: Path) -> Path:
    script = folder / name
    script.write_text((FOLDER / name).read_text("utf-8"), "utf-8")
    return script


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs_without_the_checkout(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    expected, framework = PRINTS[name]
    python = request.getfixturevalue("framework_python" if framework else "python")
    script, empty = copied(f"{name}.py", tmp_path), tmp_path / "empty"
    empty.mkdir()
    assert expected in run(python, "-I", *STRICT, script, cwd=empty)


def test_an_approval_is_given_in_another_process_and_counts_once(
    framework_python: Path, tmp_path: Path
) -> None:
    script = copied("langgraph_approval.py", tmp_path)

    def said(*words: str) -> str:
        return run(framework_python, "-I", *STRICT, script, *words, cwd=tmp_path)

    assert "waits for a person: [{'allow': 'refund'" in said("ask")
    assert "paying 40 back" in said("approve")
    assert said("approve").startswith("nothing waits")
    assert "paying" not in said("ask") + said("refuse")


def test_the_chat_backend_answers_a_request_once(framework_python: Path, tmp_path: Path) -> None:
    script = copied("chat_backend.py", tmp_path)
    printed = run(framework_python, "-I", "-c", CHAT, script, cwd=tmp_path)
    first, again, second = map(eval, printed.splitlines())
    assert (first["saved"], again["saved"], second["saved"]) == ("stored", "before", "stored")
    assert again["answer"] == first["answer"] != second["answer"]


def test_every_example_is_short_enough_to_copy() -> None:
    for path in FOLDER.glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 140, path.name


def test_no_example_needs_the_checkout() -> None:
    for path in FOLDER.glob("*.py"):
        text = path.read_text("utf-8")
        assert "sys.path" not in text, path.name
        assert "tests" not in text.replace("requests", ""), path.name


def test_the_list_names_every_example() -> None:
    listed = set(
        re.findall(r"^\| \[`[^`]+`\]\(([^)]+)\)", (FOLDER / "README.md").read_text(), re.M)
    )
    there = {path.name for path in FOLDER.iterdir() if path.is_file()} - {"README.md"}
    assert listed == there | {"kubernetes/README.md", "node/memory.mjs"}


# --- the notebook -----------------------------------------------------------------------


def test_the_notebook_runs_and_remembers_after_the_kernel_was_restarted(
    python: Path, tmp_path: Path
) -> None:
    notebook = copied("first_steps.ipynb", tmp_path)

    def values() -> list[Any]:
        printed = run(python, "-I", *STRICT, "-c", CELLS, notebook, cwd=tmp_path)
        return [json.loads(line) for line in printed.splitlines()]

    answers = ["I remember 0 earlier messages.", "I remember 2 earlier messages."]
    known = {"name": "Noor", "deliver_to": "office"}
    *first, stored = values()
    assert first == [*answers, [4, known], 20]
    assert [message["content"] for message in stored[1::2]] == answers
    *second, still_stored = values()
    assert second == [*answers, [4, {**known, "visits": 20}], 20]
    assert still_stored == stored


def test_the_notebook_holds_no_outputs() -> None:
    notebook = json.loads((FOLDER / "first_steps.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in code)


# --- Kubernetes -------------------------------------------------------------------------

KUBERNETES = FOLDER / "kubernetes"


def manifest(kind: str, file: Path = KUBERNETES / "chat-backend.yaml") -> Any:
    (found,) = [it for it in yaml.safe_load_all(file.read_text("utf-8")) if it["kind"] == kind]
    return found


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_the_manifests_are_what_kubernetes_takes(version: str) -> None:
    for kind in ("Service", "PodDisruptionBudget", "Deployment"):
        kubernetes_validate.validate(manifest(kind), version, strict=True)


def test_image_and_manifest_agree() -> None:
    linter = Path(pytest.__file__).parents[4] / "bin" / "hadolint"
    file = KUBERNETES / "Containerfile"
    ran = subprocess.run([linter, "--no-color", file], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")
    text = file.read_text("utf-8")
    for line in re.findall(r"^COPY (.*)$", text, re.M):
        assert all((ROOT / name).exists() for name in line.split()[:-1])
    pod = manifest("Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (port,) = container["ports"]
    assert f"EXPOSE {port['containerPort']}\n" in text
    assert f'"--port", "{port["containerPort"]}"' in text
    assert f"USER {pod['spec']['securityContext']['runAsUser']}:" in text
    (outside,) = manifest("Service")["spec"]["ports"]
    assert outside["targetPort"] == port["name"]
    for name, path in (("livenessProbe", "/live"), ("readinessProbe", "/ready")):
        assert container[name]["httpGet"] == {"path": path, "port": port["name"]}
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    folders = [entry["value"] for entry in container["env"] if "value" in entry]
    assert [str(Path(folder).parent) for folder in folders] == mounts * len(folders)
    labels = pod["metadata"]["labels"]
    assert labels == manifest("Service")["spec"]["selector"]


def test_the_page_makes_the_secret_and_names_the_service() -> None:
    page = (KUBERNETES / "README.md").read_text("utf-8")
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    (secret,) = [entry["valueFrom"]["secretKeyRef"] for entry in container["env"][:1]]
    said = re.search(r'create secret generic (\S+) --from-literal=(\w+)="(http:[^"]+)"', page)
    assert said is not None
    assert (said[1], said[2]) == (secret["name"], secret["key"])
    url = parse(said[3].replace("$KEY", "sw.qk1TQ0fUwv3lXo2B.x"))
    create_engine(url, World())  # takes its host and its options
    service = manifest("Service", ROOT / "deploy" / "kubernetes" / "service.yaml")
    assert url.hosts == f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    for words in re.findall(r"stateward ((?:migrate|key create) [^)\n]*)", page):
        cli.read(words.replace('"$URL"', "sqlite:///agents.db").split())
