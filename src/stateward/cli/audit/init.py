"""`stateward audit init`: a file to begin with, for a memory class of your own or for prices."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from pathlib import Path

from stateward.audit.prices import TEMPLATE as PRICES
from stateward.cli.common import OK
from stateward.errors import InvalidInput

USAGE = "stateward audit init [FILE]\n       stateward audit init prices [FILE]"
EXAMPLES = """\
An existing file is not overwritten.

examples:
  stateward audit init memory_of_mine.py           fill it in, and then:
  stateward audit memory_of_mine:create
  stateward audit init prices                      fill in prices.toml, and then:
  stateward audit sqlite:///agents.db --prices prices.toml"""

WORDS = {"what": ("prices",)}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="FILE",
        nargs="?",
        default="audit_target.py",
        help="the file to write (audit_target.py); or the word prices",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file for prices (prices.toml)")


def run(options: argparse.Namespace) -> int:
    if options.what == "prices":
        path, template = Path(options.file or "prices.toml"), PRICES
        use = f"stateward audit --prices {path}"
    elif options.file is None:
        path = Path(options.what)
        template = (files("stateward.audit.targets") / "template.py").read_text("utf-8")
        use = f"stateward audit {path.stem}:create"
    else:
        raise InvalidInput("init takes one FILE: stateward audit init memory_of_mine.py")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template)
    except FileExistsError:
        raise InvalidInput(f"{path} already exists: name another file") from None
    except OSError as error:
        raise InvalidInput(f"the file cannot be written: {error.strerror}") from error
    print(
        json.dumps({"file": str(path)})
        if options.json
        else f"wrote {path}; fill it in, then: {use}"
    )
    return OK
