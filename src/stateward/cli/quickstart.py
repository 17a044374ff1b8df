"""`stateward quickstart`: from nothing to an agent that remembers, in one command."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from stateward import sync
from stateward.cli.common import FAILED, OK, complain
from stateward.engines.registry import ENV, parse
from stateward.engines.url import EngineURL, did_you_mean
from stateward.errors import InvalidInput, StoreUnavailable


class StarterEngine(NamedTuple):
    """Where state can be kept, and what is known of it here."""

    about: str
    url: str


class StarterFramework(NamedTuple):
    """A framework with which an agent can be written."""

    about: str
    program: str  # in `quickstarts`
    module: str = ""  # what has to be installed
    extra: str = ""  # and installs it

    @property
    def missing(self) -> str:
        """How to install it; "" if it is."""
        there = not self.module or find_spec(self.module) is not None
        return "" if there else f"pip install 'stateward[{self.extra}]'"


ENGINE_CHOICES = {
    "sqlite": StarterEngine("a file beside your agent, no server", "sqlite:///agents.db"),
    "redis": StarterEngine("Redis or Valkey on this machine", "redis://localhost:6379"),
    "postgres": StarterEngine("PostgreSQL on this machine", "postgresql://localhost/agents"),
}
FRAMEWORK_CHOICES = {
    "none": StarterFramework("your own code", "plain_agent.py"),
    "langgraph": StarterFramework("LangGraph", "langgraph_agent.py", "langgraph", "langgraph"),
    "openai-agents": StarterFramework(
        "OpenAI Agents SDK", "openai_agent.py", "agents", "openai-agents"
    ),
    "pydantic-ai": StarterFramework(
        "Pydantic AI", "pydantic_agent.py", "pydantic_ai", "pydantic-ai"
    ),
}
URL_LINE = 'URL = "sqlite:///agents.db"\n'  # in each of the programs
MODEL_MARK = "# Your model goes here"  # the line before the one to change

EXAMPLES = """\
Asks where state is kept and what the agent is written with, writes a program of less than 60 lines,
and runs it. The program needs no API key: a scripted answer stands where your model goes. A file
that exists is not overwritten.

examples:
  stateward quickstart
  stateward quickstart --yes                          SQLite, and no framework
  stateward quickstart --framework langgraph --engine sqlite:///agents.db
  stateward quickstart support.py --engine postgresql://db/agents --yes"""

WORDS = {"engine": ENGINE_CHOICES}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", default="agent.py", help="what is written (agent.py)")
    engines = ", ".join(ENGINE_CHOICES)
    add("--engine", metavar="ENGINE", help=f"where state is kept: {engines}, or a store's URL")
    frameworks = ", ".join(FRAMEWORK_CHOICES)
    add("--framework", metavar="NAME", choices=FRAMEWORK_CHOICES, help=f"one of: {frameworks}")
    add("--yes", action="store_true", help="do not ask: SQLite and no framework by default")
    add("--force", action="store_true", help="overwrite FILE if it exists")


def run(options: argparse.Namespace) -> int:
    path = Path(options.file)
    if path.exists() and not options.force:
        raise InvalidInput(f"{path} exists already: name another file, or pass --force")
    engine = options.engine or choose(
        options.yes, "Where is state kept?", "Number, name or URL", engines_listed()
    )
    name = options.framework or choose(
        options.yes, "What is the agent written with?", "Number or name", frameworks_listed()
    )
    framework = FRAMEWORK_CHOICES.get(name)
    if framework is None:
        raise InvalidInput(f"no framework {name!r}{did_you_mean(name, FRAMEWORK_CHOICES)}")
    if framework.missing:
        raise InvalidInput(f"{framework.about} is not installed: {framework.missing}")
    if path.stem in (framework.module, "stateward"):
        raise InvalidInput(f"{path} would hide the package {path.stem!r}: name another file")
    url = url_of(engine)
    refuse_unreached(url)
    line = write(path, framework, url)
    return begin(path, line, url, as_json=options.json)


def url_of(engine: str) -> EngineURL:
    if "://" in engine:
        return parse(engine)
    if engine not in ENGINE_CHOICES:
        raise InvalidInput(
            f"no engine {engine!r}{did_you_mean(engine, ENGINE_CHOICES)}; "
            f"use one of: {', '.join(ENGINE_CHOICES)}, or a store's URL"
        )
    return parse(ENGINE_CHOICES[engine].url)


def refuse_unreached(url: EngineURL) -> None:
    """Before anything is written: an agent would continue without its store, and keep its turns."""
    store = sync.open(url.text, spill=False, heartbeat=None)
    try:
        health = store.health()
    finally:
        store.close()
    if not health.ok:
        raise StoreUnavailable(f"nothing was written: {health.error}")


# --- the two questions ------------------------------------------------------------------


def engines_listed() -> dict[str, str]:
    return {name: f"{choice.about}: {choice.url}" for name, choice in ENGINE_CHOICES.items()}


def frameworks_listed() -> dict[str, str]:
    return {
        name: f"{choice.about}{f' (not installed: {choice.missing})' if choice.missing else ''}"
        for name, choice in FRAMEWORK_CHOICES.items()
    }


def choose(yes: bool, question: str, form: str, listed: Mapping[str, str]) -> str:
    """Ask at the terminal, and return the chosen name or any other text that was typed."""
    names = list(listed)
    if yes:
        return names[0]
    if not sys.stdin.isatty():
        raise InvalidInput(
            "there is no terminal to ask: pass --engine and --framework, or --yes for the defaults"
        )
    lines = [f"  {n}  {name:<14} {about}" for n, (name, about) in enumerate(listed.items(), 1)]
    prompt = "\n".join([question, *lines, f"{form} [{names[0]}]: "])
    print(prompt, end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline()
    if not typed:
        raise InvalidInput("nothing was chosen, and nothing was written")
    typed = typed.strip() or names[0]
    if typed.isdigit() and 1 <= int(typed) <= len(names):
        return names[int(typed) - 1]
    return typed


# --- the program ------------------------------------------------------------------------


def write(path: Path, framework: StarterFramework, url: EngineURL) -> int:
    """Write the program; returns the number of the line where a model goes."""
    source = (files("stateward.cli.quickstarts") / framework.program).read_text("utf-8")
    if is_secret(url):  # a password is in no file
        source = source.replace(URL_LINE, f'URL = os.environ["{ENV}"]\n')
        source = source.replace("import asyncio\n", "import asyncio\nimport os\n")
    else:
        source = source.replace(URL_LINE, f"URL = {json.dumps(url.text)}\n")
    source = source.replace("agent.py", str(path))
    try:
        path.write_text(source, "utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    before, _, _ = source.partition(MODEL_MARK)
    return before.count("\n") + 2


def is_secret(url: EngineURL) -> bool:
    """Return whether the URL holds a password."""
    return "@" in url.text or "password" in url.options


def begin(path: Path, line: int, url: EngineURL, *, as_json: bool) -> int:
    """Run the program, and say what to do next."""
    if not as_json:
        print(f"wrote {path}\n\n$ {shlex.join(['python', str(path)])}", flush=True)
    ran = subprocess.run(
        [sys.executable, path],
        env={**os.environ, ENV: url.text},
        stdout=subprocess.PIPE if as_json else None,
        text=True,
    )
    if ran.returncode != 0:
        complain(f"{path} was written, and failed: its error is above")
        return FAILED
    steps = next_steps(path, line, url)
    if as_json:
        report = {"file": str(path), "url": url.safe, "model_line": line, "said": ran.stdout}
        print(json.dumps({**report, "next": list(steps)}))
        return OK
    print("\nNext:")
    width = max(map(len, steps))
    for step, why in steps.items():
        print(f"  {step:<{width}}  {why}")
    return OK


def next_steps(path: Path, line: int, url: EngineURL) -> dict[str, str]:
    """Commands, each with what it is good for."""
    steps = {f'{shlex.join(["python", str(path)])} "And when does it come?"': "it remembers"}
    if is_secret(url):
        steps = {f"export {ENV}=…": "the URL has a password, so it is not in the file", **steps}
    if find_spec("uvicorn") is None:
        steps["pip install 'stateward[server]'"] = "the dashboard's server, and then:"
    shown = [] if is_secret(url) else [url.text]
    steps[shlex.join(["stateward", "ui", *shown])] = "see what is stored"
    steps[f"edit {path}, line {line}"] = "put your model there"
    return steps
