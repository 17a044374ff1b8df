"""Somebody who issues tokens, and publishes the keys to check them with on a real port."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE, NAME = "https://state.example.com", "https://login.example.com"
LIKE = {
    "RS256": (lambda: rsa.generate_private_key(65537, 2048), jwt.algorithms.RSAAlgorithm),
    "ES256": (lambda: ec.generate_private_key(ec.SECP256R1()), jwt.algorithms.ECAlgorithm),
    "EdDSA": (ed25519.Ed25519PrivateKey.generate, jwt.algorithms.OKPAlgorithm),
}


class Issuer:
    """Keys by their ids, and tokens signed with them."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, Any]] = {}
        self.published: dict[str, dict[str, Any]] = {}
        self.asked = 0  # how often the keys were fetched
        self.status = 200
        self.configuration: dict[str, Any] | None = None  # below it, for discovery
        self.text: bytes | None = None  # instead of the keys
        self.mangled: bytes | None = None  # instead of the whole answer
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                if issuer.mangled is not None:
                    self.wfile.write(issuer.mangled)
                    return
                body = issuer.document if issuer.text is None else issuer.text
                if self.path.startswith("/.well-known/"):
                    body = json.dumps(issuer.configuration).encode()
                self.send_response(issuer.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                if issuer.status == 302:
                    self.send_header("location", f"{issuer.url}?again")
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # whoever asked had enough

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    @property
    def document(self) -> bytes:
        return json.dumps({"keys": list(self.published.values())}).encode()

    def add(self, id: str, algorithm: str = "ES256") -> None:
        """A new key, published."""
        make, kind = LIKE[algorithm]
        private = make()
        self.keys[id] = algorithm, private
        public = json.loads(kind.to_jwk(private.public_key()))
        self.published[id] = {"kid": id, "use": "sig", **public}

    def withdraw(self, id: str) -> None:
        del self.published[id]

    def token(self, id: str = "one", headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token for Ada, in force for an hour; None takes a claim out."""
        algorithm, private = self.keys[id]
        given = {"kid": id, **(headers or {})}
        named = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(self.claims(**claims), private, algorithm, named)

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {
            "iss": NAME,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": now,
            "exp": now + 3600,
            "namespace": "default",
            "scope": "openid stateward:write",
        }
        return {name: value for name, value in (usual | claims).items() if value is not None}

    def unsigned(self, **claims: Any) -> str:
        return f"{_part({'alg': 'none', 'kid': 'one'})}.{_part(self.claims(**claims))}."

    def with_secret(self, secret: bytes, algorithm: str = "HS256", **claims: Any) -> str:
        """Signed by whoever knows the secret. With a public key as the secret that is everybody."""
        said = f"{_part({'alg': algorithm, 'kid': 'one'})}.{_part(self.claims(**claims))}"
        mark = hmac.new(secret, said.encode(), hashlib.sha256).digest()
        return f"{said}.{_base64(mark)}"

    def public_pem(self, id: str = "one") -> bytes:
        public = self.keys[id][1].public_key()
        pem: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        self._server.shutdown()
        self._thread.join(30)
        self._server.server_close()


def _part(value: Any) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
