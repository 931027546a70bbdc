"""A provider of OpenID Connect by authlib, as a program: `python -m tests.portal.provider`.

It gives codes to whoever says who it is, and demands PKCE and a nonce. A test changes how it goes
wrong by `PUT /faults`, and gets a token of a program by `POST /token-for`.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import OpenIDCode
from flask import Flask, Response, jsonify, request
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from werkzeug.serving import make_server

CLIENT, SECRET, BACK = "pages", "client-secret", "/portal/sign-in/back"


@dataclass
class World:
    """What the provider knows; `faults` are claims that it adds or changes, and `shift_s`."""

    issuer: str = ""
    groups: dict[str, list[str]] = field(default_factory=dict)
    key: Any = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "first"}))
    codes: dict[str, Code] = field(default_factory=dict)
    faults: dict[str, Any] = field(default_factory=dict)

    def claims(self, sub: str, audience: str) -> dict[str, Any]:
        now = int(time.time()) + self.faults.get("shift_s", 0)
        given = {"iss": self.issuer, "sub": sub, "aud": audience, "groups": self.groups.get(sub)}
        changed = {k: v for k, v in self.faults.items() if k != "shift_s"}
        return given | {"iat": now, "exp": now + 300} | changed

    def signed(self, claims: dict[str, Any]) -> str:
        alg = "RS256" if self.key.key_type == "RSA" else "ES256"
        return jwt.encode({"alg": alg, "kid": self.key.kid}, claims, self.key)


WORLD = World()


@dataclass
class Code(AuthorizationCodeMixin):
    """A code that was given, for one use."""

    code: str
    sub: str
    redirect_uri: str
    nonce: str
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return "openid"

    def get_nonce(self) -> str:
        return self.nonce


class Client(ClientMixin):
    """The only client: the pages."""

    client_id = CLIENT

    def get_client_id(self) -> str:
        return CLIENT

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri.endswith(BACK)

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


class CodeGrant(AuthorizationCodeGrant):
    """Codes in memory."""

    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar[list[str]] = ["client_secret_basic"]

    def save_authorization_code(self, code: str, request: Any) -> None:
        sent = request.payload.data
        names = ("redirect_uri", "nonce", "code_challenge", "code_challenge_method")
        WORLD.codes[code] = Code(code, request.user, *(sent.get(name, "") for name in names))

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        return WORLD.codes.get(code)

    def delete_authorization_code(self, authorization_code: Code) -> None:
        WORLD.codes.pop(authorization_code.code)

    def authenticate_user(self, authorization_code: Code) -> str:
        return authorization_code.sub


class IdTokens(OpenIDCode):
    """ID tokens with the claims of `World`."""

    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return any(code.nonce == nonce for code in WORLD.codes.values())

    def encode_id_token(self, token: Any, request: Any) -> str:
        code = request.authorization_code
        return WORLD.signed({"nonce": code.nonce} | WORLD.claims(code.sub, CLIENT))


app = Flask(__name__)
app.config["OAUTH2_ACCESS_TOKEN_GENERATOR"] = lambda *_a, **_k: secrets.token_hex()
server = AuthorizationServer(app, lambda _id: Client(), lambda _token, _request: None)
server.register_grant(CodeGrant, [IdTokens(require_nonce=True), CodeChallenge(required=True)])


@app.get("/.well-known/openid-configuration")
def facts() -> Response:
    base = request.host_url
    return jsonify(
        issuer=WORLD.issuer,
        authorization_endpoint=f"{base}authorize",
        token_endpoint=f"{base}token",
        jwks_uri=f"{base}keys",
    )


@app.get("/keys")
def keys() -> Response:
    return jsonify(keys=[WORLD.key.as_dict(private=False)])


@app.get("/authorize")
def authorize() -> Any:
    """As a person would who signs in: `as` stands for name and password."""
    who = request.args.get("as", "") or request.cookies.get("as", "")
    grant = server.get_consent_grant(end_user=who)
    return server.create_authorization_response(grant_user=who, grant=grant)


@app.post("/token")
def token() -> Any:
    return server.create_token_response()


@app.put("/faults")
def put_faults() -> Response:
    WORLD.faults = request.get_json()
    return jsonify({})


@app.put("/groups/<sub>")
def put_groups(sub: str) -> Response:
    WORLD.groups[sub] = request.get_json()
    return jsonify({})


@app.post("/rotate")
def rotate() -> Response:
    WORLD.key = ECKey.generate_key("P-256", {"kid": secrets.token_hex(4)})
    return jsonify({})


@app.post("/token-for/<sub>")
def token_for(sub: str) -> Response:
    return jsonify(WORLD.signed(WORLD.claims(sub, "qserver")))


def main() -> None:
    http = make_server("127.0.0.1", 0, app, threaded=True)
    WORLD.issuer = f"http://localhost:{http.server_port}"  # another site than the pages
    print(WORLD.issuer, flush=True)
    http.serve_forever()


if __name__ == "__main__":
    main()
