"""What people install: the built wheel, in a fresh environment, far from the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import release
import sbom
import stateward
from release import environment, run


def test_wheel_and_sdist_hold_the_package_its_licences_and_nothing_else(
    built: release.Built,
) -> None:
    needed = release.packaged()
    assert "stateward/py.typed" in needed
    assert "stateward/engines/sqlite/migrations/0001_initial.sql" in needed
    assert "stateward/engines/redis/lua/commit.lua" in needed
    assert "stateward/server/ui/vendor/LICENSE.preact" in needed
    assert not any("tests/" in name or "__pycache__" in name for name in needed)
    release.check_contents(built)


def test_a_file_too_many_and_a_file_too_few_are_noticed(
    built: release.Built, tmp_path: Path
) -> None:
    wheel = tmp_path / built.wheel.name
    shutil.copy(built.wheel, wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/test_all.py", "")
    with pytest.raises(release.NotReady, match=r"should not have tests/test_all\.py"):
        release.check_contents(built._replace(wheel=wheel))
    sdist = tmp_path / built.sdist.name
    with tarfile.open(built.sdist) as all_of_it, tarfile.open(sdist, "w:gz") as less:
        for member in all_of_it:
            if not member.name.endswith("/LICENSE"):
                less.addfile(member, all_of_it.extractfile(member))
    with pytest.raises(release.NotReady, match="lacks LICENSE"):
        release.check_contents(built._replace(sdist=sdist))


def test_the_index_would_take_both_and_show_the_readme(built: release.Built) -> None:
    release.check_metadata(built)


def test_the_sbom_is_valid_and_names_what_is_installed_and_what_is_vendored(
    built: release.Built, python: Path, tmp_path: Path
) -> None:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site_packages = Path(run(python, "-I", "-c", code, cwd=tmp_path).strip())
    text = sbom.document(site_packages, built.wheel, ())
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert bill["metadata"]["component"]["version"] == stateward.__version__
    components = {one["name"]: one for one in bill["components"]}
    assert sorted(components) == ["apsw", "htm", "msgspec", "preact"]
    assert {one["scope"] for one in components.values()} == {"required"}
    assert all("licenses" in one for one in components.values())
    needs = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    purls = [components[name]["purl"] for name in ("apsw", "msgspec")]
    assert needs[f"pkg:pypi/stateward@{stateward.__version__}"] == purls


def test_the_sbom_tells_extras_from_what_everybody_gets(
    built: release.Built, tmp_path: Path
) -> None:
    """An environment of metadata alone: an extra whose dependency has an extra itself."""
    needs = {
        "stateward": ["msgspec", "pyjwt[crypto] ; extra == 'jwt'"],
        "msgspec": [],
        "pyjwt": ["cryptography ; extra == 'crypto'", "msgspec", "tomli ; python_version < '3'"],
        "cryptography": [],
        "unrelated": [],
    }
    for name, lines in needs.items():
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        asked = "".join(f"Requires-Dist: {line}\n" for line in lines)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{asked}"
        )
    bill = json.loads(sbom.document(tmp_path, built.wheel, ("jwt",)))
    scopes = {one["name"]: one["scope"] for one in bill["components"] if "pypi" in one["purl"]}
    assert scopes == {"msgspec": "required", "pyjwt": "optional", "cryptography": "optional"}


def test_every_place_that_states_the_version_states_the_same() -> None:
    release.check_versions()
    assert release.version() == stateward.__version__


def test_it_brings_only_what_it_needs(python: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.metadata import distributions\n"
        "print(*sorted(found.name for found in distributions()))"
    )
    assert run(python, "-I", "-c", code, cwd=tmp_path).split() == ["apsw", "msgspec", "stateward"]


def test_the_command_is_installed_and_finds_its_sql(python: Path, tmp_path: Path) -> None:
    command = python.with_name("stateward")
    said = run(command, "--version", cwd=tmp_path)
    assert said == f"stateward {stateward.__version__}\n"
    assert "0001_initial" in run(command, "migrate", "sqlite:///agents.db", cwd=tmp_path)
    assert "answers" in run(command, "health", "sqlite:///agents.db", cwd=tmp_path)


@pytest.mark.parametrize(
    ("words", "extra"),
    [(("--framework", "langgraph"), "langgraph"), (("--engine", "postgres"), "postgres")],
)
def test_quickstart_names_what_is_not_installed(
    words: tuple[str, ...], extra: str, python: Path, tmp_path: Path
) -> None:
    command = [python.with_name("stateward"), "quickstart", "--yes", *words]
    refused = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert refused.returncode == 2
    assert f"pip install 'stateward[{extra}]'" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_quickstart_needs_nothing_but_the_wheel(python: Path, tmp_path: Path) -> None:
    said = run(python.with_name("stateward"), "quickstart", "--yes", cwd=tmp_path)
    assert "I remember 0 earlier messages." in said
    assert "pip install 'stateward[server]'" in said
