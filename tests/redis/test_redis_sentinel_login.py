"""Sentinels that ask for a password, which is not the server's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from servers.proxy import Proxy, client_tls, server_tls
from servers.redis import RedisServer, running
from servers.redis_cluster import Sentinel

import stateward
import stateward.sync
from stateward.errors import AccessRefused, InvalidInput

SERVICE = "state"
SERVER = "the server's own"
RIGHTS = "user agents on >secret -@all +ping +client|setname +sentinel"
CONFIGS = {"none": (), "password": ("requirepass secret",), "user": ("user default off", RIGHTS)}
LOGINS = {
    "none": "",
    "password": "sentinel_password=secret",
    "user": "sentinel_user=agents&sentinel_password=secret",
}
WRONG = {
    ("none", "password"): "has no password",
    ("none", "user"): "refuses access .*sentinel_password",
    ("password", "none"): "refuses access .*sentinel_password",
    ("password", "user"): "refuses access .*sentinel_password",
    ("user", "none"): "refuses access .*sentinel_user",
    ("user", "password"): "refuses access .*sentinel_user",
}


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    folder = tmp_path_factory.mktemp("primary")
    with running(folder, "valkey", "--appendonly", "no", "--requirepass", SERVER) as server:
        yield server


@pytest.fixture(params=CONFIGS)
def sentinel(
    request: pytest.FixtureRequest, tmp_path: Path, primary: RedisServer
) -> Iterator[Sentinel]:
    watching = Sentinel(tmp_path / "sentinel", "valkey")
    auth = f'sentinel auth-pass {SERVICE} "{SERVER}"'
    watching.watch(SERVICE, primary.port, auth, *CONFIGS[request.param])
    try:
        yield watching
    finally:
        watching.stop()


def url_of(port: int, *options: str) -> str:
    query = "&".join(filter(None, options))
    return f"redis+sentinel://:the%20server's%20own@127.0.0.1:{port}/{SERVICE}?{query}"


async def test_each_login_opens_the_sentinels_it_is_for(
    sentinel: Sentinel, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["sentinel"]
    for login, options in LOGINS.items():
        url = url_of(sentinel.port, options)
        if login == kind:
            async with stateward.open(url) as store:
                assert (await store.thread(kind).append({"n": 1})).status == "stored"
            with stateward.sync.open(url) as blocking:
                assert blocking.thread(kind).load().version == 1
            continue
        with pytest.raises(AccessRefused, match=WRONG[kind, login]) as refused:
            async with stateward.open(url):
                pass
        assert "secret" not in str(refused.value)
        with pytest.raises(AccessRefused, match=WRONG[kind, login]), stateward.sync.open(url):
            pass


@pytest.mark.parametrize("sentinel", ["password"], indirect=True)
async def test_sentinels_have_tls_or_not_whatever_the_server_has(sentinel: Sentinel) -> None:
    options = LOGINS["password"], urlencode(client_tls())
    async with (
        Proxy(sentinel.port, server_tls()) as proxy,
        stateward.open(url_of(proxy.port, *options, "sentinel_tls=on")) as store,
    ):
        assert (await store.health()).ok
    with pytest.raises(InvalidInput, match="needs TLS"):
        stateward.open(url_of(sentinel.port, *options))
    with pytest.raises(InvalidInput, match="needs 'sentinel_password'"):
        stateward.open(url_of(sentinel.port, "sentinel_user=agents"))
