"""Tokens and accounts: what a token is, what is kept of it, and which names there may be."""

from __future__ import annotations

import hashlib

import pytest

from qserver.errors import ConfigError
from qserver.records.account import Account, Allowance, Token, TokenRecord

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "the store keeps a salted slow hash and no token; secrets are compared in constant time",
    ),
]


def test_a_token_is_read_back_from_its_text() -> None:
    token = Token.new()
    assert Token.parse(token.text) == token
    assert Token.parse(f"qs_{token.id}_{token.secret}") == token


@pytest.mark.parametrize(
    "change",
    [
        lambda t: "",
        lambda t: t[:-1],
        lambda t: t + "A",
        lambda t: t + "\n",
        lambda t: t.replace("qs_", "qx_"),
        lambda t: t.replace(t[3], "g", 1),
        lambda t: t[:-1] + "\u0663",
    ],
)
def test_a_text_of_another_form_is_no_token(change: object) -> None:
    assert Token.parse(change(Token.new().text)) is None


def test_tokens_never_repeat_and_hold_256_random_bits() -> None:
    tokens = {Token.new().text for _ in range(1000)}
    assert len(tokens) == 1000
    # 43 characters of base64 without padding are 32 bytes.
    assert {len(text.split("_", 2)[2]) for text in tokens} == {43}


def test_a_record_accepts_its_own_token_only() -> None:
    token, other = Token.new(), Token.new()
    record = TokenRecord.of(token, account="ann", role="analyst")
    assert record.accepts(token)
    assert not record.accepts(Token(token.id, other.secret))


def test_what_is_kept_is_a_salted_scrypt_hash_and_not_the_secret() -> None:
    token = Token.new()
    record = TokenRecord.of(token, account="ann", role="analyst")
    expected = hashlib.scrypt(
        token.secret.encode(), salt=bytes.fromhex(record.salt), n=16384, r=8, p=1, dklen=32
    )
    assert record.digest == expected.hex()
    assert token.secret not in record.to_json()
    again = TokenRecord.of(token, account="ann", role="analyst")
    assert again.salt != record.salt
    assert again.digest != record.digest
    assert TokenRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize("name", ["", "a b", "-a", "a" * 65, "a\n", "{a}", "a:b"])
def test_a_name_that_could_be_mistaken_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="`name` must be 1 to 64 letters"):
        Account(name, "analyst", 0, "")


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ConfigError, match="`role` must be one of analyst, owner"):
        Account("ann", "admin", 0, "")  # type: ignore[arg-type]


@pytest.mark.parametrize("nano", [-1, 0.5, True])
def test_an_allowance_is_whole_nano_epsilon(nano: object) -> None:
    with pytest.raises(ConfigError, match="whole number >= 0"):
        Allowance(limit_nano=nano)  # type: ignore[arg-type]
