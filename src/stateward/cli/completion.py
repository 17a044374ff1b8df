"""`stateward completion`: a script that asks `stateward __complete` what may follow."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files

from stateward.cli.common import OK

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
Prints a short script. At each TAB it asks stateward itself what may follow.

examples:
  source <(stateward completion bash)              in ~/.bashrc
  stateward completion zsh > "${fpath[1]}/_stateward"
  stateward completion fish > ~/.config/fish/completions/stateward.fish
  stateward inspect sqlite:///agents.db thr<TAB>   and then this is completed"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    file = files("stateward.cli") / "completions" / f"stateward.{options.shell}"
    script = file.read_text("utf-8")
    if options.json:
        print(json.dumps({"shell": options.shell, "script": script}))
    else:
        print(script, end="")
    return OK
