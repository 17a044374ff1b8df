"""Move modules of the package, and rewrite every mention of them.

    python tools/move.py moves.tsv [--dry-run]

Each line of the table is "old new", dotted names below the package: `meter observe.recorder`. A
package moves with all that is in it. Files are moved by git; imports are rewritten in Python, and
dotted names and paths in every text file that git tracks. The blocking twins are not moved: run
`make sync` afterwards, with the tables of async_to_sync.py rewritten by the same run.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "stateward"
SOURCE = ROOT / "src" / PACKAGE
DONE = "already" + "_moved"  # stands for the package in a line that needs no second look
LOGGERS = ("writes", "leases", "workflows", "store", "tasks")  # public names, not modules


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(argv)
    moves = read(options.table)
    modules = every_module(moves)
    if not options.dry_run:
        for old, new in moves.items():
            move(old, new)
    changed = 0
    for path in tracked():
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        rewritten = rewrite(text, modules, path)
        if rewritten != text:
            changed += 1
            if not options.dry_run:
                path.write_bytes(rewritten.encode())
    print(f"{len(moves)} moves, {changed} files rewritten", file=sys.stderr)
    return 0


def read(table: Path) -> dict[str, str]:
    lines = (line.split("#")[0].split() for line in table.read_text("utf-8").splitlines())
    return {line[0]: line[1] for line in lines if line}


def every_module(moves: Mapping[str, str]) -> dict[str, str]:
    """Old → new of every module that moves, those inside a package that moves included."""
    found = {}
    for old, new in moves.items():
        folder = SOURCE / old.replace(".", "/")
        found[old] = new
        if folder.is_dir() and (folder / "__init__.py").exists():
            for path in sorted(folder.rglob("*.py")):
                inside = ".".join(path.relative_to(folder).with_suffix("").parts)
                inside = inside.removesuffix("__init__").removesuffix(".")
                if inside and f"{old}.{inside}" not in moves:
                    found[f"{old}.{inside}"] = f"{new}.{inside}"
    return found


def move(old: str, new: str) -> None:
    origin, target = SOURCE / old.replace(".", "/"), SOURCE / new.replace(".", "/")
    if not origin.is_dir() or origin.with_suffix(".py").exists():
        origin, target = origin.with_suffix(".py"), target.with_suffix(".py")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "mv", origin, target], cwd=ROOT, check=True)
    for folder in target.parents:
        if folder == SOURCE:
            break
        if not (folder / "__init__.py").exists():
            (folder / "__init__.py").touch()
            subprocess.run(["git", "add", folder / "__init__.py"], cwd=ROOT, check=True)


def tracked() -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    names = [name for name in listed.split("\0") if name]
    twins = f"src/{PACKAGE}/sync/"
    return [ROOT / name for name in names if not name.startswith(twins) and (ROOT / name).is_file()]


def rewrite(text: str, modules: Mapping[str, str], path: Path) -> str:
    if path.suffix == ".py":
        text = rewrite_module_imports(text, modules)
    longest = sorted(modules, key=len, reverse=True)
    names = "|".join(re.escape(name) for name in longest)
    if path.suffix in (".py", ".md", ".toml", ".yaml", ".yml", ".cfg") or path.name == "Makefile":
        text = re.sub(
            rf"\b{PACKAGE}\.(sync\.)?({names})(?![\w-])",
            lambda m: m[0] if m[2] in LOGGERS else f"{PACKAGE}.{m[1] or ''}{modules[m[2]]}",
            text,
        )
    files = "|".join(re.escape(name.replace(".", "/")) for name in longest)
    text = re.sub(
        rf"(?<![\w./-])(src/{PACKAGE}/|{PACKAGE}/|/{PACKAGE}/)?(sync/)?({files})(\.py\b|/)",
        lambda m: renamed_path(m, modules),
        text,
    )
    return text.replace(DONE, PACKAGE)


def renamed_path(found: re.Match[str], modules: Mapping[str, str]) -> str:
    old = found[3].replace("/", ".")
    if not found[1] and ("." not in old or found[4] == "/"):
        return found[0]  # too short to be sure: `storage.py` of a test, say
    return f"{found[1] or ''}{found[2] or ''}{modules[old].replace('.', '/')}{found[4]}"


def rewrite_module_imports(text: str, modules: Mapping[str, str]) -> str:
    """`from stateward.audit import fleet`, where the module itself is what moved."""
    lines = text.splitlines(keepends=True)
    renamed: dict[str, str] = {}
    for node in reversed([n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)]):
        parent = str(node.module)
        if parent != PACKAGE and not parent.startswith(f"{PACKAGE}."):
            continue
        prefix = parent.removeprefix(PACKAGE).removeprefix(".")
        twin = "sync." if prefix == "sync" or prefix.startswith("sync.") else ""
        prefix = prefix.removeprefix("sync").removeprefix(".") if twin else prefix
        full = {a: f"{prefix}.{a.name}".removeprefix(".") for a in node.names}
        moved = {a: modules[f] for a, f in full.items() if f in modules}
        kept = [a for a in node.names if a not in moved]
        if not moved or all(
            modules[full[a]] == f"{modules.get(prefix, prefix)}.{a.name}" for a in moved
        ):
            continue
        indent = " " * node.col_offset
        out = []
        if kept:
            words = ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in kept)
            out.append(f"{indent}from {parent} import {words}\n")
        for alias, new in moved.items():
            where, _, name = new.rpartition(".")
            place = ".".join(filter(None, (PACKAGE, twin.rstrip("."), where)))
            as_name = f" as {alias.asname}" if alias.asname else ""
            out.append(f"{indent}from {place.replace(PACKAGE, DONE, 1)} import {name}{as_name}\n")
            if not alias.asname and name != alias.name:
                renamed[alias.name] = name
        lines[node.lineno - 1 : node.end_lineno] = out
    text = "".join(lines)
    for old, new in renamed.items():
        text = re.sub(rf"(?<![\w.\"'/])({old})(?=\.\w)|(?<=setattr\(){old}(?=,)", new, text)
    return text


if __name__ == "__main__":
    sys.exit(main())
