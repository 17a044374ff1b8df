"""`serve.toml`: what it may say, what wins over it, and what it is told when it is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from stateward.errors import InvalidInput
from stateward.server import JwtSettings, RateSettings
from stateward.server.asker import DeviceRights
from stateward.server.log_heads import LogHeadSettings
from stateward.server.quotas import QuotaSettings
from stateward.server.settings import ServeSettings, read_settings

EXAMPLE = Path(__file__).parents[2] / "deploy" / "serve.toml"
ENVIRONMENT = {"STATEWARD_URL": "sqlite:///agents.db", "DATABASE_PASSWORD": "s3cret", "PORT": "81"}


def written(folder: Path, text: str) -> str:
    file = folder / "serve.toml"
    file.write_text(text, "utf-8")
    return str(file)


def read(folder: Path, text: str, **given: Any) -> ServeSettings:
    return read_settings(written(folder, text), given, ENVIRONMENT)


def test_the_example_is_what_the_command_reads() -> None:
    settings = read_settings(str(EXAMPLE), {}, ENVIRONMENT)
    assert settings.store == "sqlite:///agents.db"
    assert (settings.host, settings.port) == ("0.0.0.0", 7878)
    assert settings.limits == RateSettings(rate=50.0, streams=100)
    assert settings.jwt is None


def test_the_example_has_every_key_with_its_default(tmp_path: Path) -> None:
    text = re.sub(
        r"^# (?=\[(?:jwt|devices|operations_log|quotas)\]|[a-z_]+ = )",
        "",
        EXAMPLE.read_text("utf-8"),
        flags=re.M,
    )
    whole = read(tmp_path, text)
    assert whole.jwt is not None
    assert whole.password == "s3cret"
    sections = {
        "limits": RateSettings,
        "devices": DeviceRights,
        "jwt": JwtSettings,
        "operations_log": LogHeadSettings,
        "quotas": QuotaSettings,
    }
    for section, of in (("", ServeSettings), *((f"[{name}]", of) for name, of in sections.items())):
        lines = (text.partition(section)[2] if section else text).partition("\n[")[0]
        named = {name.removesuffix("_env") for name in re.findall(r"^([a-z_]+) = ", lines, re.M)}
        assert named | sections.keys() >= {field.name for field in fields(of)}, section
    shown = {"host", "store", "password", "tls_cert", "tls_key", "tls_client_ca", *sections}
    for field in fields(ServeSettings):
        if field.name not in shown:
            assert getattr(whole, field.name) == field.default, field.name
    other = {"jwks", "audience", "issuer", "algorithms", "namespace"}
    for field in fields(JwtSettings):
        if field.name not in other:
            assert getattr(whole.jwt, field.name) == field.default, field.name


def test_the_command_line_wins(tmp_path: Path) -> None:
    text = """
        store_env = "STATEWARD_URL"
        port = 80
        [limits]
        rate = 5
        [jwt]
        jwks = "https://x/keys"
        audience = "a"
        leeway = 5
    """
    given = {"store": "sqlite:///b.db", "port": 0, "limits.rate": 7.0, "jwt.issuer": "me"}
    settings = read_settings(written(tmp_path, text), {**given, "host": None}, ENVIRONMENT)
    assert (settings.store, settings.port, settings.host) == ("sqlite:///b.db", 0, "127.0.0.1")
    assert settings.limits == RateSettings(rate=7.0)
    assert settings.jwt == JwtSettings(jwks="https://x/keys", audience="a", issuer="me", leeway=5)
    alone = read_settings(None, {"jwt.jwks": "https://x/keys", "jwt.audience": "a"}, {})
    assert alone.jwt == JwtSettings(jwks="https://x/keys", audience="a")
    assert read_settings(None, {}, {}) == ServeSettings()
    file = written(tmp_path, 'store_env = "NOWHERE"')
    assert read_settings(file, {"store": "sqlite:///b.db"}, {}).store == "sqlite:///b.db"


def test_values_come_from_the_environment(tmp_path: Path) -> None:
    settings = read(tmp_path, 'port_env = "PORT"\npassword_env = "DATABASE_PASSWORD"')
    assert (settings.port, settings.password) == (81, "s3cret")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 80", "no key 'prot' (did you mean 'port'?)"),
        ("[limits]\nrates = 5", "no key 'limits.rates' (did you mean 'rate'?)"),
        ('[jwt]\nsecret = "x"', "no key 'jwt.secret'"),
        ("[namespaces]", "no key 'namespaces'"),
        ("limits = 5", "[limits]"),
        ('port = "80"', "(port)"),
        ("host = 80", "(host)"),
        ('[limits]\nrate = "fast"', "(limits.rate)"),
        ("[limits]\nrate = 0", "requests per second"),
        ('[jwt]\njwks = "https://x/"', "--audience"),
        ('[jwt]\njwks = "https://x/"\naudience = "a"\nalgorithms = ["HS256"]', "HS256"),
        ("port = ", "not TOML"),
        ('password_env = "NOWHERE"', "not set, or empty"),
        ("password_env = 5", "not set, or empty"),
        ('password_env = "hush"', "not set, or empty"),
        ('password_env = "PORT"\npassword = "hush"', "choose one"),
        ('_env = "PORT"', "no key '_env'"),
        ('port_env = "STATEWARD_URL"', "(port)"),
        ('tls_cert = "x"', "belong together"),
        ('insecure_local = true\nhost = "0.0.0.0"', "this machine"),
        ("stop_seconds = 0", "stop_seconds"),
        ("largest_body = 1", "largest_body"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_secrets(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)
    assert "serve.toml" in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_settings(str(tmp_path / "nowhere.toml"), {})
