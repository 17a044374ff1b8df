"""Build a release into dist/ and check it: versions, contents, metadata, a fresh install, an SBOM.

Nothing is uploaded. `make release` runs this; docs/releasing.md says what comes before and after.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from datetime import date
from pathlib import Path
from typing import NamedTuple

import sbom

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
DASHBOARD = SOURCE / "stateward" / "server" / "ui"  # all of it, with licences
KINDS = {".py", ".sql", ".lua", ".typed", ".yml", ".json", ".css", ".js", ".bash", ".fish", ".zsh"}
VENDORED = ("LICENSE.htm", "LICENSE.preact")
LICENCES = ("LICENSE", *(f"src/stateward/server/ui/vendor/{name}" for name in VENDORED))
BESIDE_THE_SOURCE = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO"}
# Both hold little but Python, which deflates to a third. More means that something slipped in.
MOST_BYTES = 2_100_000
# What an installation of the store or of the service brings; frameworks bring themselves.
EXTRAS = ("cron", "fast", "jwt", "mcp", "otel", "postgres", "redis", "server")

# Pages that install from a checkout until there is a release, and the paragraph that says why.
INSTALL_PAGES = ("README.md", "docs/index.md", "docs/tutorial.md")
UNPUBLISHED = """\
Nothing is published yet: install from a checkout of this repository. Where a page says
`pip install stateward` or `'stateward[redis]'`, write `.` or `'.[redis]'`.

"""
FROM_CHECKOUT = re.compile(r"(?<=pip[ ]install )('?)\.(?=$|\[[a-z,]+\]')", re.MULTILINE)


class NotReady(Exception):
    """The release cannot be made as things are; the message says what to fix."""


class Built(NamedTuple):
    wheel: Path
    sdist: Path


def environment() -> dict[str, str]:
    """This process's variables without those that say something to Python or to the package."""
    foreign = ("PYTHON", "STATEWARD", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def run(*command: str | Path, cwd: Path) -> str:
    """What it printed, run as people run it who only installed the wheel."""
    ran = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=600
    )
    if ran.returncode:
        words = " ".join(str(word) for word in command)
        raise NotReady(f"{words} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def check_versions() -> None:
    """Every file that states the version states the same one, and the changelog has its section."""
    wanted = version()
    client = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text("utf-8"))
    stated = {
        "src/stateward/__init__.py": _found(r'^__version__ = "(.+)"$', "src/stateward/__init__.py"),
        "clients/typescript/package.json": client["version"],
        "docs/versioning.md": _found(r"\| SemVer, `(.+?)` \|", "docs/versioning.md"),
        "docs/how-to/typescript.md": _found(r"client-(.+)\.tgz", "docs/how-to/typescript.md"),
    }
    for file, said in stated.items():
        if said != wanted:
            raise NotReady(f"{file} says {said}, pyproject.toml says {wanted}")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", changelog, re.MULTILINE)
    if sections[0][0] != "Unreleased":
        raise NotReady("CHANGELOG.md must begin with an [Unreleased] section")
    if sections[1][0] != wanted:
        raise NotReady(f"CHANGELOG.md has no section [{wanted}] after [Unreleased]")
    try:
        date.fromisoformat(sections[1][1])
    except ValueError:
        raise NotReady(f"CHANGELOG.md must say when {wanted} is released: YYYY-MM-DD") from None


def check_nothing_is_unreleased() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    unreleased = changelog.partition("## [Unreleased]")[2].partition("\n## ")[0].strip()
    if unreleased:
        raise NotReady("CHANGELOG.md has unreleased lines: move them to the section of a release")


def published(text: str) -> str:
    """Return a page that installs from the package index instead of from a checkout."""
    return FROM_CHECKOUT.sub(r"\1stateward", text.replace(UNPUBLISHED, ""))


def write_published() -> list[str]:
    """Make all pages install from the package index; return those that changed."""
    changed = []
    for page in INSTALL_PAGES:
        text = (ROOT / page).read_text("utf-8")
        if published(text) != text:
            (ROOT / page).write_text(published(text), "utf-8")
            changed.append(page)
    return changed


def check_install_lines() -> None:
    for page in INSTALL_PAGES:
        text = (ROOT / page).read_text("utf-8")
        if published(text) != text:
            raise NotReady(
                f"{page} installs from a checkout: run python tools/release.py --publish-pages, "
                "and commit what it changes"
            )


def _found(pattern: str, file: str) -> str:
    match = re.search(pattern, (ROOT / file).read_text("utf-8"), re.MULTILINE)
    if match is None:
        raise NotReady(f"{file} does not state a version")
    return match[1]


def build(folder: Path) -> Built:
    """The sdist, and the wheel out of the sdist: so the sdist has all that is needed."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    name = f"stateward-{version()}"
    return Built(folder / f"{name}-py3-none-any.whl", folder / f"{name}.tar.gz")


def packaged() -> set[str]:
    """The files of the package, relative to the source folder."""
    return {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
        if path.suffix in KINDS or DASHBOARD in path.parents
    }


def check_contents(built: Built) -> None:
    """The package, its licences and its metadata: nothing is missing, nothing else came along."""
    information = f"stateward-{version()}.dist-info"
    metadata = {f"{information}/{name}" for name in ("METADATA", "RECORD", "WHEEL")}
    metadata |= {f"{information}/entry_points.txt"}
    metadata |= {f"{information}/licenses/{name}" for name in LICENCES}
    with zipfile.ZipFile(built.wheel) as wheel:
        _same(built.wheel, set(wheel.namelist()), packaged() | metadata)
    top = built.sdist.name.removesuffix(".tar.gz")
    with tarfile.open(built.sdist) as sdist:
        held = {member.name.removeprefix(f"{top}/") for member in sdist if member.isfile()}
    held.discard(".gitignore")  # hatchling puts it in, so that a build from it ignores the same
    _same(built.sdist, held, {f"src/{name}" for name in packaged()} | BESIDE_THE_SOURCE)
    for file in built:
        if file.stat().st_size > MOST_BYTES:
            raise NotReady(f"{file.name} has {file.stat().st_size:,} bytes: what came in?")


def _same(file: Path, held: set[str], wanted: set[str]) -> None:
    if missing := sorted(wanted - held):
        raise NotReady(f"{file.name} lacks {', '.join(missing)}")
    if strange := sorted(held - wanted):
        raise NotReady(f"{file.name} should not have {', '.join(strange)}")


def check_metadata(built: Built) -> None:
    """As the index would: also whether it can show the README."""
    run(sys.executable, "-m", "twine", "check", "--strict", *built, cwd=built.wheel.parent)


def install(wheel: Path, folder: Path, *extras: str) -> Path:
    """The Python of a new environment that holds the wheel and what it asks for."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python", python)
    asked = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    run(*pip, "install", "-c", ROOT / "constraints.txt", asked, cwd=folder)
    return python


def describe(built: Built, environment: Path) -> list[Path]:
    """Write the SBOM and the checksums beside what was built."""
    python = install(built.wheel, environment, *EXTRAS)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site_packages = Path(run(python, "-I", "-c", code, cwd=environment).strip())
    said = run(python.with_name("stateward"), "--version", cwd=environment)
    if said != f"stateward {version()}\n":
        raise NotReady(f"the installed command says {said!r}")
    bill = built.wheel.with_name(f"stateward-{version()}.cdx.json")
    bill.write_text(sbom.document(site_packages, built.wheel, EXTRAS), "utf-8")
    sums = built.wheel.with_name("SHA256SUMS")
    files = sorted([*built, bill])
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    sums.write_text("".join(lines), "utf-8")
    return [*files, sums]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--publish-pages",
        action="store_true",
        help="write the install lines of a release into README and pages, and stop",
    )
    chosen = parser.parse_args()
    if chosen.publish_pages:
        print("\n".join(write_published()) or "nothing to change")
        return 0
    folder = chosen.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if left := sorted(path.name for path in folder.iterdir()):
        print(f"{folder} is not empty ({', '.join(left)}): remove it first", file=sys.stderr)
        return 1
    try:
        check_versions()
        check_nothing_is_unreleased()
        check_install_lines()
        built = build(folder)
        check_contents(built)
        check_metadata(built)
        environment = folder / ".environment"
        made = describe(built, environment)
        shutil.rmtree(environment)
    except NotReady as error:
        print(f"not ready: {error}", file=sys.stderr)
        return 1
    for file in made:
        print(f"{file.stat().st_size:>10,}  {file}")
    print(f"\nChecked; nothing is uploaded. To publish {version()}: docs/releasing.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
