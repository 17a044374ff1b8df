"""Whoever copies from the README, with nothing but the wheel, gets to where it says."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from release import INSTALL_PAGES, ROOT, UNPUBLISHED, environment, published, run
from stateward import sync

README = (ROOT / "README.md").read_text("utf-8")
MODEL = re.compile(r"^( *)async for part in model\(.*\):$", re.M)
PATIENCE = 120.0


def block(language: str, number: int) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return str(found[number])


def session(number: int) -> list[tuple[list[str], str]]:
    """The commands of a console, each with what it prints."""
    parts = re.split(r"^\$ ", block("console", number), flags=re.M)[1:]
    return [(shlex.split(part.split("\n", 1)[0]), part.split("\n", 1)[1]) for part in parts]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(block("python", 0), "utf-8")
    return tmp_path


def test_it_stays_short_and_begins_with_code() -> None:
    assert README.count("\n") <= 160
    assert README.index("```python") < README.index("stateward audit")


def test_the_agent_remembers_as_the_readme_says(python: Path, folder: Path) -> None:
    install, *commands = session(0)
    assert install[0][:2] == ["pip", "install"]
    assert install[0][2] in (".", "stateward")  # which is what `python` has
    assert len(commands) == 3
    for (program, *words), printed in commands:
        assert program == "python"
        assert run(python, "-W", "error", *words, cwd=folder) == printed
    code = "import stateward; print(stateward.__file__)"
    origin = Path(run(python, "-I", "-c", code, cwd=folder).strip())
    assert origin.is_relative_to(python.parent.parent)


def test_a_conversation_survives_kill_9_in_the_middle_of_an_answer(
    python: Path, folder: Path
) -> None:
    ask = (python, "-W", "error", "agent.py")
    assert run(*ask, "request-1", "Where is my order?", cwd=folder) == "I remember 0 messages.\n"
    text, count = MODEL.subn(
        r"\1print('asked', flush=True)\n\1sys.stdin.read()\n\g<0>", block("python", 0)
    )
    assert count == 1
    (folder / "slow_model.py").write_text(text, "utf-8")
    killed = subprocess.Popen(
        [python, "slow_model.py", "request-2", "And when does it come?"],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"asked\n"
        killed.send_signal(signal.SIGKILL)
    with sync.open(f"sqlite:///{folder}/agents.db", heartbeat=None) as store:
        window = store.thread("s-1", user="u-42").load()
        assert window.messages[-1]["content"] == "And when does it come?"
    for _ in range(2):  # the client sends it again until it is answered; then once too often
        said = run(*ask, "request-2", "And when does it come?", cwd=folder)
        assert said == "I remember 2 messages.\n"
    with sync.open(f"sqlite:///{folder}/agents.db", heartbeat=None) as store:
        stored = [
            message["content"] for message in store.thread("s-1", user="u-42").load().messages
        ]
    assert stored[::2] == ["Where is my order?", "And when does it come?"]
    assert stored[1::2] == ["I remember 0 messages.", "I remember 2 messages."]


@pytest.mark.parametrize("page", INSTALL_PAGES)
def test_a_release_makes_the_pages_install_from_the_index(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    released = published(text)
    assert UNPUBLISHED not in released
    assert re.search(r"pip install '?\.", released) is None
    assert re.findall(r"^(?:\$ )?pip install '?stateward", released, re.M) != []
    assert published(released) == released
    if UNPUBLISHED in text:  # nothing else changes
        left = text.replace(UNPUBLISHED, "").replace("'.[server]'", "'stateward[server]'")
        assert released == left.replace("pip install .\n", "pip install stateward\n")


def test_the_pages_agree_whether_there_is_a_release() -> None:
    texts = [(ROOT / page).read_text("utf-8") for page in INSTALL_PAGES]
    assert len({UNPUBLISHED in text for text in texts}) == 1
    assert all((UNPUBLISHED in text) == (published(text) != text) for text in texts)


def test_the_dashboard_shows_the_conversation(serving_python: Path, folder: Path) -> None:
    run(serving_python, "agent.py", cwd=folder)
    install, ((program, *words), _) = session(1)
    assert install[0][2] in (".[server]", "stateward[server]")  # as `serving_python` has it
    command = [serving_python.with_name(program), *words]
    shown = subprocess.Popen(
        command,
        cwd=folder,
        env=environment() | {"BROWSER": "true %s", "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    with shown:
        assert shown.stdout is not None
        try:
            _, _, address = shown.stdout.readline().strip().partition(": ")
            here, _, key = address.partition("#key=")
            with urllib.request.urlopen(here, timeout=PATIENCE) as page:
                assert b"<title>Stateward</title>" in page.read()
            asked = urllib.request.Request(
                here.replace("/ui/", "/v1/threads"), headers={"authorization": f"Bearer {key}"}
            )
            with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
                assert b'"s-1"' in answer.read()
            shown.send_signal(signal.SIGINT)
            assert shown.wait(PATIENCE) == 0
        finally:
            shown.kill()
