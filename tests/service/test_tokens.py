"""JSON Web Tokens: which are taken, what they permit, and what becomes of the issuer's keys."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from servers.issuer import AUDIENCE, NAME, Issuer

import stateward
from service.conftest import Served, Told
from service.test_door import BODIES, append, execute, refused, thread
from stateward.ops import Applied, Fetch, List
from stateward.server import JwtSettings, outbound
from stateward.server.asker import OWN_NAMESPACE
from stateward.server.jwks import check_source
from stateward.server.outbound import LARGEST_ANSWER
from stateward.server.tokens import Tokens
from stateward.wire import STORE
from stateward.world import World

Serve = Callable[..., Served]
WORLD = World()
PATIENCE = 60.0


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    made.add("one")
    yield made
    made.close()


def trusting(whom: Issuer, /, **more: Any) -> JwtSettings:
    return JwtSettings(**{"jwks": whom.url, "audience": AUDIENCE, "issuer": NAME, **more})


def asked(served: Served, token: str | None) -> Told:
    return served.ask("GET", "/v1/key", key=token)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_good_token_is_taken(serve: Serve, issuer: Issuer, algorithm: str) -> None:
    issuer.add("one", algorithm)
    served = serve(jwt=trusting(issuer))
    for _ in range(3):
        assert asked(served, issuer.token()).status == 200
    assert issuer.asked == 1
    assert asked(served, issuer.token(aud=["other", AUDIENCE])).status == 200
    now = int(time.time())
    nearly = issuer.token(exp=now - 5, nbf=now + 5)
    assert asked(served, nearly).status == 200, "clocks differ by some seconds"
    assert asked(served, served.key()).status == 200, "and keys are taken still"
    told = json.loads(served.ask("GET", "/v1/key", key=issuer.token(exp=now + 600)).body)
    ends = datetime.fromisoformat(told["expires_at"]).timestamp()
    assert now + 600 <= ends <= now + 660, "clocks may differ: it is taken a little longer"


def bad_tokens(issuer: Issuer) -> dict[str, str]:
    """Every way of not being one that the service takes."""
    now = int(time.time())
    head, body, mark = issuer.token().split(".")
    other = Issuer()
    other.add("one")
    stranger = other.token()
    other.close()
    public = json.dumps(issuer.published["one"]).encode()
    forged = issuer.token(sub="eve").split(".")[1]
    return {
        "expired": issuer.token(exp=now - 3600),
        "without an end": issuer.token(exp=None),
        "an end that is no number": issuer.token(exp="never"),
        "not yet": issuer.token(nbf=now + 3600),
        "issued in the future": issuer.token(iat=now + 3600),
        "another audience": issuer.token(aud="https://other.example.com"),
        "no audience": issuer.token(aud=None),
        "an audience that only begins so": issuer.token(aud=AUDIENCE + ".evil"),
        "another issuer": issuer.token(iss="https://evil.example.com"),
        "no issuer": issuer.token(iss=None),
        "no subject": issuer.token(sub=None),
        "an empty subject": issuer.token(sub=""),
        "a subject that is too long": issuer.token(sub="x" * 510),
        "no scope": issuer.token(scope=None),
        "scopes of others": issuer.token(scope="openid admin write"),
        "a scope that is no text": issuer.token(scope=7),
        "no namespace": issuer.token(namespace=None),
        "no namespace at all": issuer.token(namespace=[]),
        "a namespace that is no name": issuer.token(namespace=[7]),
        "the service's own namespace": issuer.token(namespace=OWN_NAMESPACE),
        "unsigned": issuer.unsigned(),
        "signed with the public key": issuer.with_secret(issuer.public_pem()),
        "signed with the published key": issuer.with_secret(public),
        "signed with nothing": issuer.with_secret(b""),
        "a shared secret under another name": issuer.with_secret(issuer.public_pem(), "ES256"),
        "an unknown algorithm": issuer.with_secret(b"x", "FOO"),
        "another's signature": stranger,
        "another's key id": issuer.token(headers={"kid": "two"}),
        "a key id that is no text": issuer.token().replace(head, "eyJhbGciOiJFUzI1NiIsImtpZCI6N30"),
        "a demand nobody knows": issuer.token(headers={"crit": ["exp2"], "exp2": 1}),
        "changed": f"{head}.{forged}.{mark}",
        "cut": f"{head}.{body}.{mark[:-4]}",
        "without signature": f"{head}.{body}.",
        "two parts": f"{head}.{body}",
        "too long": issuer.token(filler="x" * 8192),
        "nonsense": "a.b.c",
        "deep": "eyJhIjoi" + "W1tb" * 1500 + ".e30.",
        "not ascii": "ä.ö.ü",
    }


def test_every_other_token_is_refused_in_words_that_tell_nothing(
    serve: Serve, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    served = serve(jwt=trusting(issuer))
    for why, token in bad_tokens(issuer).items():
        if not token.isascii():
            token = token.encode().decode("latin-1")
        for method, path in served.app.routes:
            assert served.ask(method, path, BODIES[path], token).status == 401, (why, path)
        told = asked(served, token)
        assert told.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        said = f"{told.problem}{told.headers}{[record.__dict__ for record in caplog.records]}"
        parts = [part for part in token.split(".") if len(part) > 10]
        assert not any(part in said for part in parts), why
        assert "127.0.0.1" not in told.problem["detail"]
    assert asked(served, None).headers["www-authenticate"] == "Bearer"
    assert served.ask("GET", STORE, authorization=f"Basic {issuer.token()}").status == 401
    assert asked(serve(), issuer.token()).status == 401, "a service that was told of no issuer"
    assert issuer.asked <= 2, "unknown keys do not make it ask again and again"


def test_only_who_has_a_good_signature_is_told_what_is_wrong(serve: Serve, issuer: Issuer) -> None:
    served = serve(jwt=trusting(issuer))
    old = int(time.time()) - 3600
    assert "expired" in asked(served, issuer.token(exp=old)).problem["detail"]
    assert "another" in asked(served, issuer.token(aud="x")).problem["detail"]
    assert "claim exp" in asked(served, issuer.token(exp=None)).problem["detail"]
    assert "scope" in asked(served, issuer.token(scope="")).problem["detail"]
    forged = issuer.with_secret(issuer.public_pem(), exp=old, aud="x")
    detail = asked(served, forged).problem["detail"]
    assert "expired" not in detail
    assert "another" not in detail


def test_a_token_permits_what_its_claims_say(serve: Serve, issuer: Issuer) -> None:
    served = serve(jwt=trusting(issuer))
    path = f"/v1/threads/{quote('u/ada/hers', safe='')}"
    body = b'{"messages":[{"role":"user","content":"x"}]}'
    say = partial(served.ask, "POST", f"{path}/messages", body, content_type="application/json")
    assert say(key=issuer.token()).status == 201
    assert served.ask("GET", path, key=issuer.token()).status == 200
    assert served.ask("GET", path, key=issuer.token(sub="bob")).status == 404
    assert served.ask("GET", path, key=issuer.token(namespace="other")).status == 404
    assert say(key=issuer.token(scope="stateward:read")).status == 403
    assert "one user" in refused(served, issuer.token(), Fetch(thread()))
    agents = serve(jwt=trusting(issuer, user_claim=""))
    refused(agents, issuer.token(namespace="other"), Fetch(thread()))
    # Whoever issues tokens may be anybody's: they never make an administrator of all.
    refused(agents, issuer.token(scope="stateward:admin"), List(OWN_NAMESPACE, "api-key"))


def test_claims_may_have_other_names(serve: Serve, issuer: Issuer) -> None:
    served = serve(
        jwt=trusting(
            issuer, namespace_claim="tenants", user_claim="", scope_claim="scp", scope_prefix=""
        )
    )
    token = issuer.token(tenants=["one", "two"], scp=["read", "operate"], namespace=None)
    for name in ("one", "two"):
        (applied,) = execute(served, token, append(thread(name), "ada"))
        assert isinstance(applied, Applied)
    refused(served, token, Fetch(thread("default")))
    assert asked(served, issuer.token()).status == 401
    whole = serve(jwt=trusting(issuer, namespace="shop", issuer=None, user_claim=""))
    token = issuer.token(iss=None, namespace="other")
    execute(whole, token, append(thread("shop")))
    refused(whole, token, append(thread("other")))


async def test_an_agent_whose_token_has_ended_gets_another_and_goes_on(
    serve: Serve, issuer: Issuer
) -> None:
    served = serve(jwt=trusting(issuer, user_claim="", pause_seconds=1.0, refresh_seconds=1.0))
    current = ["one"]
    async with stateward.open(served.url, credentials=lambda: issuer.token(current[0])) as store:
        await store.thread("t", user="ada").append({"n": 1})
        old = issuer.token("one")
        issuer.add("two")
        issuer.withdraw("one")
        current[0] = "two"
        await asyncio.to_thread(awaited, lambda: asked(served, old).status == 401)
        await store.thread("t", user="ada").append({"n": 2})
    async with stateward.open(served.url_with(issuer.token("two")), heartbeat=None) as store:
        assert (await store.thread("t", user="ada").load()).messages == [{"n": 1}, {"n": 2}]


# --- the issuer's keys ------------------------------------------------------------------


def test_keys_change_under_traffic_and_nobody_is_refused(serve: Serve, issuer: Issuer) -> None:
    """As issuers do it: a key is published, then used, and withdrawn when its tokens are old."""
    served = serve(jwt=trusting(issuer, pause_seconds=1.0, refresh_seconds=1.0))
    done = threading.Event()
    told: list[list[int]] = [[], [], []]
    current = ["one"]

    def ask(mine: list[int]) -> None:
        while not done.is_set():
            mine.append(asked(served, issuer.token(current[0])).status)

    def all_go_on() -> None:
        """Whatever was under way before is answered."""
        seen = [len(each) for each in told]
        awaited(lambda: all(len(each) > n + 1 for each, n in zip(told, seen, strict=True)))

    callers = [threading.Thread(target=ask, args=(mine,)) for mine in told]
    for caller in callers:
        caller.start()
    try:
        for old, new in (("one", "two"), ("two", "three")):
            last = issuer.token(old)
            issuer.add(new)
            awaited(lambda new=new: asked(served, issuer.token(new)).status == 200)
            current[0] = new
            all_go_on()
            issuer.withdraw(old)
            awaited(lambda last=last: asked(served, last).status == 401)
    finally:
        done.set()
        for caller in callers:
            caller.join(PATIENCE)
    assert {status for each in told for status in each} == {200}


def test_unknown_key_ids_are_no_storm_at_the_issuer(serve: Serve, issuer: Issuer) -> None:
    served = serve(jwt=trusting(issuer, pause_seconds=300.0))
    assert asked(served, issuer.token()).status == 200
    callers = [
        threading.Thread(
            target=lambda n=n: asked(served, issuer.token(headers={"kid": f"{n}"})), args=()
        )
        for n in range(10)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert issuer.asked == 1
    assert asked(served, issuer.token()).status == 200


HOW = ("down", "error", "redirect", "nonsense", "empty", "huge", "cut off", "no HTTP")


@pytest.mark.parametrize("how", HOW)
def test_the_last_keys_stay_in_force_while_no_others_can_be_had(
    serve: Serve, issuer: Issuer, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(jwt=trusting(issuer, pause_seconds=1.0, refresh_seconds=1.0))
    assert asked(served, issuer.token()).status == 200
    before = issuer.asked
    if how == "down":
        issuer.close()
    issuer.status = {"error": 500, "redirect": 302}.get(how, 200)
    texts = {"nonsense": b"<html>", "empty": b'{"keys":[]}', "huge": b"x" * (1 + LARGEST_ANSWER)}
    issuer.text = texts.get(how)
    issuer.mangled = {"cut off": b"HTTP/1.1 200 OK\r\n", "no HTTP": b"\0" * 99}.get(how)

    def said() -> bool:
        assert asked(served, issuer.token()).status == 200
        return any(record.message == "token_keys_unavailable" for record in caplog.records)

    awaited(said)
    if how == "down":
        return
    issuer.status, issuer.text, issuer.mangled = 200, None, None
    assert issuer.asked > before
    issuer.add("two")
    awaited(lambda: asked(served, issuer.token("two")).status == 200)


@pytest.mark.parametrize("how", ["chunked", "until the end"])
def test_keys_are_read_however_http_sends_them(serve: Serve, issuer: Issuer, how: str) -> None:
    body, head = issuer.document, b"HTTP/1.1 200 OK\r\n"
    if how == "chunked":
        parts = [body[:7], body[7:], b""]
        chunks = b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in parts)
        issuer.mangled = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    else:
        issuer.mangled = head + b"\r\n" + body
    assert asked(serve(jwt=trusting(issuer)), issuer.token()).status == 200


def test_a_service_that_never_had_the_keys_says_so(serve: Serve, issuer: Issuer) -> None:
    issuer.status = 500
    served = serve(jwt=trusting(issuer, pause_seconds=1.0))
    told = asked(served, issuer.token())
    assert (told.status, told.headers["retry-after"]) == (503, "1")
    assert issuer.url not in told.problem["detail"]
    assert asked(served, issuer.unsigned()).status == 401
    issuer.status = 200
    awaited(lambda: asked(served, issuer.token()).status == 200)


def test_an_issuer_that_does_not_answer_holds_nobody_up_for_long(
    serve: Serve, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "FETCH_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}/keys"
        served = serve(jwt=trusting(issuer, jwks=where))
        assert asked(served, issuer.token()).status == 503
        assert asked(served, served.key()).status == 200


def test_keys_may_lie_in_a_file(serve: Serve, issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.document)
    served = serve(jwt=trusting(issuer, jwks=str(file), pause_seconds=1.0, refresh_seconds=1.0))
    assert asked(served, issuer.token()).status == 200
    assert issuer.asked == 0
    issuer.add("two")
    file.write_bytes(issuer.document)
    awaited(lambda: asked(served, issuer.token("two")).status == 200)


def test_keys_that_should_not_be_there_are_not_used(serve: Serve, issuer: Issuer) -> None:
    """A shared secret, a private key, one for another use, and one that is too short."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I"
    issuer.published["shared"] = {"kid": "shared", "kty": "oct", "k": secret, "alg": "HS256"}
    issuer.add("private", "RS256")
    stated = jwt.algorithms.RSAAlgorithm.to_jwk
    issuer.published["private"] = stated(issuer.keys["private"][1], as_dict=True) | {
        "kid": "private"
    }
    for id, use in {"for encryption": {"use": "enc"}, "for signing": {"key_ops": ["sign"]}}.items():
        issuer.add(id)
        issuer.published[id] = {**issuer.published[id], **use}
    issuer.add("of another algorithm", "RS256")
    issuer.published["of another algorithm"]["alg"] = "RS512"
    short = rsa.generate_private_key(65537, 1024)
    issuer.keys["short"] = "RS256", short
    issuer.published["short"] = stated(short.public_key(), as_dict=True) | {"kid": "short"}
    served = serve(jwt=trusting(issuer))
    assert asked(served, issuer.token()).status == 200
    for id in issuer.keys:
        if id != "one":
            assert asked(served, quiet_token(issuer, id)).status == 401, id
    assert asked(served, issuer.token(headers={"kid": None})).status == 401


def quiet_token(issuer: Issuer, id: str) -> str:
    import warnings

    with warnings.catch_warnings(action="ignore"):
        return issuer.token(id)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"algorithms": ("HS256",)}, "HS256"),
        ({"algorithms": ("none",)}, "none"),
        ({"algorithms": ()}, "among"),
        ({"audience": ""}, "need an audience"),
        ({"leeway": 4000.0}, "leeway"),
        ({"pause_seconds": 0.0}, "pause_seconds"),
        ({"namespace_claim": ""}, "namespace"),
        ({"scope_claim": ""}, "scope"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"jwks": "https://x/keys", "audience": "a", **wrong}
    with pytest.raises(stateward.InvalidInput, match=said):
        JwtSettings(**given)


@pytest.mark.parametrize(
    "where",
    [
        "http://login.example.com/keys",
        "https://u:p@x/keys",
        "ftp://x/keys",
        "https:///keys",
        "https://x:port/",
        "https://x/a b",
        "https://x/\r\nhost: y",
        "/nowhere/keys.json",
        "x://",
    ],
)
def test_a_source_of_keys_that_cannot_be_trusted_is_refused(where: str) -> None:
    with pytest.raises(stateward.InvalidInput, match="jwks"):
        check_source(where)


def awaited(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)


# --- discovery --------------------------------------------------------------------------


def discovering(issuer: Issuer, /, **stated: Any) -> JwtSettings:
    """Settings that name the issuer alone; it states where its keys are."""
    name = issuer.url.removesuffix("/keys")
    issuer.configuration = {"issuer": name, "jwks_uri": issuer.url, **stated}
    return JwtSettings(audience=AUDIENCE, issuer=name)


def test_the_keys_of_an_issuer_are_found_by_discovery(serve: Serve, issuer: Issuer) -> None:
    settings = discovering(issuer)
    served = serve(jwt=settings)
    assert asked(served, issuer.token(iss=settings.issuer)).status == 200
    assert asked(served, issuer.token()).status == 401, "of another issuer"
    assert issuer.asked == 2, "its configuration and its keys, once"


@pytest.mark.parametrize(
    "stated",
    [
        {"issuer": "https://another.example.com"},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": "http://login.example.com/keys"},
        {"jwks_uri": "/keys"},
        {"jwks_uri": "http://127.0.0.1:x/keys"},
    ],
)
def test_a_configuration_that_cannot_be_trusted_leads_to_no_keys(
    serve: Serve, issuer: Issuer, caplog: pytest.LogCaptureFixture, stated: dict[str, Any]
) -> None:
    settings = discovering(issuer, **stated)
    told = asked(serve(jwt=settings), issuer.token(iss=settings.issuer))
    assert (told.status, issuer.asked) == (503, 1)
    assert [each.getMessage() for each in caplog.records] == ["token_keys_unavailable"]


def test_an_issuer_without_tls_is_not_asked() -> None:
    with pytest.raises(stateward.InvalidInput, match="https"):
        Tokens(JwtSettings(audience=AUDIENCE, issuer="http://login.example.com"), WORLD)
