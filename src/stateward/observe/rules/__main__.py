"""`python -m stateward.observe.rules DIRECTORY`."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from stateward.observe.rules import files


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stateward.observe.rules", description="Copy alert rules and dashboards."
    )
    parser.add_argument("directory", type=Path, help="where to; made if it is not there")
    directory: Path = parser.parse_args().directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in files():
            print(shutil.copy(path, directory / path.name))
    except OSError as error:
        print(f"stateward: cannot write to {directory}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
