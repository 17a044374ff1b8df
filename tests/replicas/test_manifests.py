"""The manifests are what Kubernetes takes, and hang together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from replicas.processes import lay_out
from stateward import cli

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.29", "1.37")  # the oldest that knows everything used, and a recent one
NAMES = ("agents-0", "agents-1", "agents-2")


def manifests(file: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / file).read_text("utf-8")))


def kind(file: str, name: str) -> Any:
    (found,) = [manifest for manifest in manifests(file) if manifest["kind"] == name]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_every_manifest_is_what_the_schema_of_kubernetes_allows(file: str, version: str) -> None:
    for manifest in manifests(file):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schema_is_really_asked() -> None:
    wrong = kind("statefulset.yaml", "StatefulSet")
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 30
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_the_list_of_replicas_has_as_many_names_as_there_are_replicas() -> None:
    found = kind("statefulset.yaml", "StatefulSet")
    names = environment(found)["AGENT_REPLICAS"].split(",")
    prefix = found["metadata"]["name"]
    assert names == [f"{prefix}-{number}" for number in range(found["spec"]["replicas"])]


def environment(found: Any) -> dict[str, Any]:
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def test_service_volume_and_labels_fit_the_replicas() -> None:
    found, service = kind("statefulset.yaml", "StatefulSet"), kind("statefulset.yaml", "Service")
    spec, pod = found["spec"], found["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (claim,), (mount,) = spec["volumeClaimTemplates"], container["volumeMounts"]
    assert service["spec"]["clusterIP"] == "None"
    assert spec["serviceName"] == service["metadata"]["name"]
    assert (
        spec["selector"]["matchLabels"] == pod["metadata"]["labels"] == service["spec"]["selector"]
    )
    assert mount["name"] == claim["metadata"]["name"]
    assert environment(found)["STATEWARD_URL"].startswith(f"sqlite:///{mount['mountPath']}/")
    assert pod["spec"]["terminationGracePeriodSeconds"] >= 10


def test_the_probe_tells_a_volume_that_may_serve_from_one_that_may_not(tmp_path: Path) -> None:
    (container,) = kind("statefulset.yaml", "StatefulSet")["spec"]["template"]["spec"]["containers"]
    shell, flag, line = container["readinessProbe"]["exec"]["command"]
    url = f"sqlite:///{tmp_path}/agents.db"
    line = line.replace("exec stateward", f"exec {sys.executable} -W error -m stateward")

    def probe() -> int:
        env = {"STATEWARD_URL": url, "AGENT_REPLICA": NAMES[0], "AGENT_REPLICAS": ",".join(NAMES)}
        ran = subprocess.run([shell, flag, line], env=os.environ | env, capture_output=True)
        return ran.returncode

    assert probe() == cli.FAILED, "there is no file yet"
    lay_out(url, NAMES[0], NAMES[:2])
    assert probe() == cli.FAILED, "it is laid out for two"
    lay_out(url, NAMES[0], NAMES)
    assert probe() == cli.OK
    assert probe() == cli.OK, "a probe leaves nothing behind that the next one meets"


def test_the_job_names_every_volume_that_it_mounts() -> None:
    job = kind("rebalance.yaml", "Job")["spec"]["template"]["spec"]
    (container,) = job["containers"]
    words = container["command"][1:]
    _, options = cli.read(words)
    stores = dict(text.split("=", 1) for text in [*options.staying, *options.joining])
    for mount, volume in zip(container["volumeMounts"], job["volumes"], strict=True):
        name = volume["name"]
        assert mount["name"] == name
        assert volume["persistentVolumeClaim"]["claimName"] == f"data-{name}"
        assert stores[name].startswith(f"sqlite:///{mount['mountPath']}/")
    assert len(stores) == len(job["volumes"])
