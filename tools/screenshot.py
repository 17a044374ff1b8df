"""Makes a picture of an audit report, for the README.

python tools/screenshot.py report.json [docs/images/audit-report.png] [--dark] [--width N] [--whole]

It needs Chromium, and playwright from requirements-dev.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from stateward.audit.forms import page
from stateward.audit.forms.schema import from_json
from stateward.errors import InvalidInput
from system_packages import find

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "audit-report.png"


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    browser = find("chromium-headless-shell")
    if browser is None:
        print("No Chromium was found: apt-get install chromium-headless-shell", file=sys.stderr)
        return 1
    try:
        html = page.html(from_json(options.report.read_bytes()))
    except (InvalidInput, OSError) as error:
        print(f"{options.report}: {error}", file=sys.stderr)
        return 2
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    photograph(html, options.picture, browser, options)
    print(options.picture)
    return 0


def photograph(html: str, picture: Path, browser: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        source = Path(folder) / "report.html"
        source.write_text(html, "utf-8")
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = opened.new_page(
            viewport={"width": options.width, "height": options.height},
            color_scheme="dark" if options.dark else "light",
            device_scale_factor=2,
        )
        tab.goto(source.as_uri())
        tab.screenshot(path=picture, full_page=options.whole)
        opened.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Make a picture of an audit report.")
    parser.add_argument("report", type=Path, help="a report.json")
    parser.add_argument("picture", type=Path, nargs="?", default=PICTURE, help="where to")
    parser.add_argument("--dark", action="store_true", help="in dark colours")
    parser.add_argument("--whole", action="store_true", help="the whole page, not its top")
    parser.add_argument("--width", type=int, default=1120)
    parser.add_argument("--height", type=int, default=1180)
    return parser


if __name__ == "__main__":
    sys.exit(main())
