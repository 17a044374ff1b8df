"""Build the site, and say what is wrong with it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from docs_site.build import BuildFailed, build
from docs_site.links import problems
from docs_site.pages import ROOT


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="docs_site", description="Build the documentation site.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "site", help="where to")
    folder: Path = parser.parse_args(argv).folder
    if folder.exists() and not (folder / "llms.txt").exists():
        print(f"{folder} is not a site: it would be removed; name another", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as work:
        try:
            built = build(Path(work))
        except BuildFailed as error:
            print(error, file=sys.stderr)
            return 1
        wrong = problems(built)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(built, folder)
    for line in wrong:
        print(line, file=sys.stderr)
    pages = sum(1 for _ in folder.rglob("*.html"))
    print(f"{folder}: {pages} pages, {len(wrong)} problems")
    print(f"read it: python -m http.server --directory {folder} --bind 127.0.0.1")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
