"""A store on another machine that is reached without TLS is named once, loudly."""

from __future__ import annotations

import logging

import pytest

from stateward.engines import plaintext
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import InvalidInput
from stateward.observe.log_text import TextFormatter
from stateward.world import World

PLAIN = [
    *("redis://198.51.100.7", "redis://:pw@198.51.100.7?insecure=on", "redis://:pw@cache:6379"),
    *("redis://:pw@172.16.0.1", "redis://:pw@[fd00::1]", "postgresql://u:pw@db/x"),
    "postgresql://u:pw@198.51.100.7/x?sslmode=disable",
    *("redis://10.0.0.1:6379", "redis+cluster://10.0.0.1:1,10.0.0.2:2"),
    *("redis+sentinel://localhost:1,elsewhere.example:2/name", "postgresql://u:secret@10.0.0.1/x"),
    *("postgres://h.example/x?sslmode=prefer", "postgresql://127.0.0.1,h.example/x?sslmode=allow"),
]
SAFE = [
    *("redis://127.0.0.1", "redis://localhost:1", "redis://[::1]:1", "unix:///run/redis.sock"),
    *("rediss://10.0.0.1", "redis+cluster://10.0.0.1:1?tls=on", "postgresql:///x"),
    *("postgresql://u@10.0.0.1/x?sslmode=require", "postgresql://h.example/x?sslmode=verify-full"),
    *("postgresql://localhost/x", "postgresql:///x?host=/run/postgresql", "sqlite:///x.db"),
]


@pytest.fixture(autouse=True)
def nothing_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plaintext, "_warned", set())
    monkeypatch.delenv("PGSSLMODE", raising=False)


@pytest.mark.parametrize("url", PLAIN)
def test_a_connection_in_plain_text_is_logged_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for create in (create_engine, create_sync_engine, create_engine):
        create(parse(url), World())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    sentence = TextFormatter().format(record)
    assert "without TLS" in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(
    "url",
    [
        *("redis://:secret@198.51.100.7:6379", "redis://u:secret@[2001:db8::1]"),
        *("redis+cluster://:secret@10.0.0.1:1,8.8.8.8:2", "postgresql://u:secret@198.51.100.7/db"),
        "postgresql://u@172.32.0.1/db",
    ],
)
def test_a_password_is_not_sent_over_the_internet_in_plain_text(url: str) -> None:
    for create in (create_engine, create_sync_engine):
        with pytest.raises(InvalidInput, match="without TLS") as refused:
            create(parse(url), World())
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", SAFE)
def test_a_connection_that_stays_here_or_has_tls_is_not(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_engine(parse(url), World())
    assert caplog.records == []
