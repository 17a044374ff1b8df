"""How a service is set up: `serve.toml`, with whatever the command line says instead."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from stateward.engines.url import did_you_mean, is_loopback
from stateward.errors import InvalidInput
from stateward.server.asker import DeviceRights
from stateward.server.log_heads import LogHeadSettings
from stateward.server.quotas import QuotaSettings
from stateward.server.rates import RateSettings
from stateward.server.tokens import JwtSettings

PORT = 7878
FROM_ENVIRONMENT = "_env"  # store_env = "NAME": the value of `store` is the environment's NAME


class ServeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a service."""

    store: str | None = None  # None: the environment's STATEWARD_URL
    password: str | None = None  # of the store, instead of one in its URL
    namespace: str = "default"  # that a key for all namespaces asks about, unless it says which
    host: str = "127.0.0.1"
    port: int = PORT
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None  # clients need a certificate that these authorities signed
    insecure_local: bool = False
    largest_body: int = 64 << 20  # bytes
    body_seconds: float = 30.0
    stop_seconds: int = 30  # that what is in progress may take when it stops
    limits: RateSettings = RateSettings()
    devices: DeviceRights = DeviceRights()
    jwt: JwtSettings | None = None
    operations_log: LogHeadSettings = LogHeadSettings()
    quotas: QuotaSettings = QuotaSettings()

    def __post_init__(self) -> None:
        if self.insecure_local and not is_loopback(self.host):
            raise InvalidInput("--insecure-local only works on this machine: leave out --host")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InvalidInput("--tls-cert and --tls-key belong together")
        if self.tls_client_ca and not self.tls_cert:
            raise InvalidInput("--tls-ca is for clients over TLS: it needs --tls-cert, --tls-key")
        if not 0 <= self.port <= 65_535:
            raise InvalidInput(f"port is from 0 (any free one) to 65535, not {self.port}")
        if self.largest_body < 1024 or not 0 < self.body_seconds < 1e9:
            raise InvalidInput("largest_body is at least 1024 bytes, and body_seconds above 0")
        if not 1 <= self.stop_seconds <= 3600:
            raise InvalidInput(f"stop_seconds is from 1 to 3600, not {self.stop_seconds}")


SECTIONS: dict[str, type[Struct]] = {
    "limits": RateSettings,
    "devices": DeviceRights,
    "jwt": JwtSettings,
    "operations_log": LogHeadSettings,
    "quotas": QuotaSettings,
}


def read_settings(
    file: str | None, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ServeSettings:
    """Read the settings from the file; `given` on the command line wins (None: not given).

    The names of what was given may have a section's before them, as in `limits.rate`. Raises
    `InvalidInput` for what is not known or cannot be used; it shows no values.
    """
    where = f"{file}: " if file is not None else ""
    content = {} if file is None else _read(file)
    instead = {name: value for name, value in given.items() if value is not None}
    known = {name: value for name, value in environment.items() if value}
    content = _resolved(content, ServeSettings, where, "", known, instead)
    for name, value in instead.items():
        section, _, key = name.rpartition(".")
        (content.setdefault(section, {}) if section else content)[key] = value
    if "jwt" in content and (
        "audience" not in content["jwt"] or not {"jwks", "issuer"} & content["jwt"].keys()
    ):
        raise InvalidInput(
            f"{where}tokens need both jwks and audience (--jwks, --audience), or an issuer whose "
            "keys are found by OpenID Connect discovery (--issuer)"
        )
    try:
        return msgspec.convert(content, ServeSettings)
    except msgspec.ValidationError as error:
        # In its words a value stands nowhere, but in ours: a rate that is too small, for example.
        text = re.sub(
            r" - at `\$\.?([^`]*)`", lambda at: f" ({at[1]})" if at[1] else "", f"{error}"
        )
        raise InvalidInput(f"{where}{text}") from error


def _read(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--config: {file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file} is not TOML: {error}") from error


def _resolved(
    said: Mapping[str, Any],
    of: type[Struct],
    where: str,
    section: str,
    environment: Mapping[str, str],
    instead: Mapping[str, Any],
) -> dict[str, Any]:
    """With the values of the environment. Refuses keys that no one knows, nearest first."""
    by_name = {field.encode_name: field for field in fields(of)}
    resolved: dict[str, Any] = {}
    for key, value in said.items():
        name = f"{section}{key}"
        if key in SECTIONS and not section:
            if not isinstance(value, dict):
                raise InvalidInput(f"{where}{key} is a section: write [{key}] above its keys")
            of_it = SECTIONS[key]
            resolved[key] = _resolved(value, of_it, where, f"{key}.", environment, instead)
        elif key in by_name:
            resolved[key] = value
        elif (base := key.removesuffix(FROM_ENVIRONMENT)) in by_name and base != key:
            if base in said:
                raise InvalidInput(f"{where}{section}{base} and {name} say the same: choose one")
            if f"{section}{base}" in instead:
                continue
            if not isinstance(value, str) or value not in environment:
                # The value is not shown: by mistake it may be the secret itself.
                raise InvalidInput(
                    f"{where}{name} names a variable of the environment that is not set, or empty"
                )
            resolved[base] = _of_type(environment[value], by_name[base].type)
        else:
            raise InvalidInput(
                f"{where}there is no key {name!r}{did_you_mean(key, by_name)}; use one of: "
                f"{', '.join(by_name)}"
            )
    return resolved


def _of_type(text: str, type: Any) -> Any:
    """A value of the environment is text: a number or a switch is read as TOML would."""
    try:
        return msgspec.convert(text, type, strict=False)
    except msgspec.ValidationError:
        return text  # whoever converts all of them says what is wrong
