"""What the package brings along, as a CycloneDX document: its dependencies and its vendored files.

The versions are those of an environment in which the wheel was installed, so the document says
what users get on the day of the release. Extras are `optional`, except for what the core needs too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "src" / "stateward" / "server" / "ui" / "vendor"
VENDORED_LICENCES = {"preact": "MIT", "htm": "Apache-2.0"}
ITSELF = "stateward"


def document(site_packages: Path, wheel: Path, extras: Iterable[str]) -> str:
    """The SBOM of `wheel`, which is installed with `extras` in `site_packages`."""
    installed = distributions(path=[str(site_packages)])
    found: dict[str, Distribution] = {canonicalize_name(one.name): one for one in installed}
    graph = _graph(found, frozenset(extras))
    core = _reached(_graph(found, frozenset()), ITSELF)
    others = sorted(_reached(graph, ITSELF) - {ITSELF})
    itself = _component(found[ITSELF], "required")
    itself["hashes"] = [
        {"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    ]
    del itself["scope"]  # the subject of the document has none
    vendored = _vendored()
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": itself,
        },
        "components": [
            *(
                _component(found[name], "required" if name in core else "optional")
                for name in others
            ),
            *vendored,
        ],
        "dependencies": [
            {
                "ref": _purl(found[name]),
                "dependsOn": [_purl(found[to]) for to in sorted(graph[name])],
            }
            for name in (ITSELF, *others)
        ],
    }
    return json.dumps(made, indent=2) + "\n"


def _graph(found: dict[str, Distribution], extras: frozenset[str]) -> dict[str, set[str]]:
    """Who needs whom, as far as it is installed; `extras` are those asked of the package itself."""
    asked: dict[str, frozenset[str]] = {ITSELF: extras}
    graph: dict[str, set[str]] = {}
    ahead = [ITSELF]
    while ahead:
        name = ahead.pop()
        graph[name] = set()
        for line in found[name].requires or ():
            needed = Requirement(line)
            if not _applies(needed, asked[name]):
                continue
            to = canonicalize_name(needed.name)
            if to not in found:
                continue  # for another platform or Python
            graph[name].add(to)
            wanted = asked.get(to, frozenset()) | needed.extras
            if to not in graph or wanted != asked[to]:
                asked[to] = wanted
                ahead.append(to)
    return graph


def _applies(needed: Requirement, extras: frozenset[str]) -> bool:
    if needed.marker is None:
        return True
    return any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, ahead = {start}, [start]
    while ahead:
        new = graph[ahead.pop()] - seen
        seen |= new
        ahead.extend(new)
    return seen


def _purl(one: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.name)}@{one.version}"


def _component(one: Distribution, scope: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": _purl(one),
        "name": one.name,
        "version": one.version,
        "scope": scope,
        "purl": _purl(one),
    }
    if expression := one.metadata.json.get("license_expression"):
        made["licenses"] = [{"expression": expression}]
    elif said := _licence_in_words(one):
        made["licenses"] = [{"license": {"name": said}}]
    return made


def _licence_in_words(one: Distribution) -> str:
    """Older packages say it in a classifier, or in a field that may hold the whole text."""
    kinds = [
        value.rpartition(" :: ")[2]
        for value in one.metadata.get_all("Classifier") or ()
        if value.startswith("License :: ")
    ]
    return kinds[0] if kinds else str(one.metadata.json.get("license", "")).partition("\n")[0]


def _vendored() -> list[dict[str, Any]]:
    """The JavaScript that the wheel carries, by the table beside it."""
    table = (VENDOR / "README.md").read_text("utf-8")
    packages = sorted(set(re.findall(r"\| ([\w-]+) (\d+\.\d+\.\d+), `", table)))
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{version}",
            "name": name,
            "version": version,
            "scope": "required",
            "purl": f"pkg:npm/{name}@{version}",
            "licenses": [{"expression": VENDORED_LICENCES[name]}],
        }
        for name, version in packages
    ]
