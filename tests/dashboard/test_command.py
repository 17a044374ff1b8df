"""`stateward ui` as a process: one command, and one's own store is in the browser."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from stateward import sync
from stateward.cli import main

PATIENCE = 60.0


def test_it_serves_opens_the_browser_and_leaves_no_key_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with sync.open(url, heartbeat=None) as store:
        store.thread("s-1").append({"role": "user", "content": "hello"})
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part\nmv {opened}.part {opened}\n')
    browser.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "stateward", "ui", url, "--json"],
        stdout=subprocess.PIPE,
        env={**os.environ, "BROWSER": f"{browser} %s"},
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        here, _, key = told["url"].partition("#key=")
        with urllib.request.urlopen(here, timeout=PATIENCE) as page:
            assert b"<title>Stateward</title>" in page.read()
        ask = urllib.request.Request(
            here.replace("/ui/", "/v1/threads"), headers={"authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(ask, timeout=PATIENCE) as answer:
            assert [item["id"] for item in json.load(answer)["items"]] == ["s-1"]
        end = time.monotonic() + PATIENCE
        while not opened.exists():
            assert time.monotonic() < end, "no browser was opened"
            time.sleep(0.02)
        page = Path(opened.read_text().strip().removeprefix("file://"))
        assert key not in opened.read_text(), "others see the command line of the browser"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert told["url"] in page.read_text("utf-8")
        rebound = urllib.request.Request(
            here.replace("/ui/", "/v1/threads"),
            headers={"authorization": f"Bearer {key}", "host": "evil.example"},
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(rebound, timeout=PATIENCE)
        assert refused.value.code == 421
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert not page.exists()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()
    listed = subprocess.run(
        [sys.executable, "-m", "stateward", "key", "list", url, "--json"],
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert json.loads(listed.stdout)["keys"] == []


def test_what_it_needs_and_does_not_find_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ui", f"sqlite:///{tmp_path}/none.db", "--no-open"]) == 1
    assert "there is no store at" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["ui", f"sqlite:///{tmp_path}/none.db"]) == 2
    assert "pip install 'stateward[server]'" in capsys.readouterr().err
