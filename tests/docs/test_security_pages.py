"""The pages for a security officer claim nothing that no test proves."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "docs" / "explanation" / "threat-model.md").read_text("utf-8")
PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
LOCK = ROOT / "clients" / "typescript" / "package-lock.json"


def claims() -> list[str]:
    section = MODEL.partition("## What stops them")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.split("|")[1].strip()[:60])
def test_every_claim_names_a_test_that_exists(claim: str) -> None:
    proofs = PROOF.findall(claim)
    assert proofs, "the claim names no test"
    for file, name in proofs:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        tests = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in tests, f"{file} has no {name}"


def test_the_page_has_claims_and_its_other_proofs_exist_too() -> None:
    assert len(claims()) >= 15
    for file, name in PROOF.findall(MODEL):
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), (file, name)


def test_actions_are_named_by_their_commits_and_what_they_install_is_constrained() -> None:
    action = (ROOT / "action.yml").read_text("utf-8")
    used = re.findall(r"uses: (\S+)", action)
    assert used
    for each in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each), each
    assert "--constraint" in action


def test_the_lock_of_the_typescript_client_has_hashes_and_no_addresses() -> None:
    lock = json.loads(LOCK.read_text("utf-8"))
    package = json.loads((LOCK.parent / "package.json").read_text("utf-8"))
    root, others = lock["packages"].pop(""), lock["packages"]
    assert lock["version"] == root["version"] == package["version"]
    assert root["devDependencies"] == package["devDependencies"]
    for name, version in package["devDependencies"].items():
        assert others[f"node_modules/{name}"]["version"] == version
    for name, each in others.items():
        assert each["integrity"].startswith("sha512-"), name
        assert "resolved" not in each, name
        assert each.get("dev") or each.get("peer") or each.get("optional"), name


def test_the_network_policy_opens_the_port_of_the_service_and_no_other() -> None:
    folder = ROOT / "deploy" / "kubernetes"
    policy = yaml.safe_load((folder / "network-policy.yaml").read_text("utf-8"))
    documents = list(yaml.safe_load_all((folder / "service.yaml").read_text("utf-8")))
    (service,) = [each for each in documents if each["kind"] == "Service"]
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = policy["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == [service["spec"]["ports"][0]["port"]]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
