"""`stateward audit init`: a file to begin with, for a memory class, prices, or what is expected."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from pathlib import Path

from stateward.audit.prices import TEMPLATE as PRICES
from stateward.audit.targets.memory import PARTS
from stateward.cli.audit.run import saved
from stateward.cli.common import OK
from stateward.errors import InvalidInput

USAGE = """\
stateward audit init [FILE]
       stateward audit init prices [FILE]
       stateward audit init config --from RECORD [FILE]"""
EXAMPLES = """\
An existing file is not overwritten.

examples:
  stateward audit init memory_of_mine.py           fill it in, and then:
  stateward audit memory_of_mine:create
  stateward audit init prices                      fill in prices.toml, and then:
  stateward audit sqlite:///agents.db --prices prices.toml
  stateward audit memory_of_mine:create --save first.json      a first run, whose parts are those
  stateward audit init config --from first.json                that audit.toml expects from then on
  stateward audit memory_of_mine:create --config audit.toml"""

WORDS = {"what": ("prices", "config")}
CONFIG = """\
# Parts that this memory has. Questions about others are not asked; without one of these they fail.
# All parts: {all}
[expect]
parts = {parts}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="FILE",
        nargs="?",
        default="audit_target.py",
        help="the file to write (audit_target.py); or the word prices, or config",
    )
    other = "the file for prices (prices.toml), or the config file (audit.toml)"
    parser.add_argument("file", metavar="FILE", nargs="?", help=other)
    first = "for config: what a first audit saved (--save)"
    parser.add_argument("--from", dest="saved", metavar="RECORD", help=first)


def run(options: argparse.Namespace) -> int:
    if options.what == "prices":
        path, template = Path(options.file or "prices.toml"), PRICES
        use = f"stateward audit --prices {path}"
    elif options.what == "config":
        path, template = Path(options.file or "audit.toml"), _config(options.saved)
        use = f"stateward audit --config {path}"
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


def _config(file: str | None) -> str:
    """Return a config file that expects the parts that a first audit met."""
    if file is None:
        raise InvalidInput(
            "init config takes --from RECORD, which a first audit saves: stateward audit … --save"
        )
    record = saved(file)
    parts = [*record.provides, *(["backup"] if record.drill is not None else [])]
    return CONFIG.format(all=", ".join(PARTS), parts=json.dumps(list(dict.fromkeys(parts))))
