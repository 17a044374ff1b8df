"""How many tokens a message may cost, without a tokenizer and without the network."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from stateward.codec import encode
from stateward.errors import InvalidInput

Count = Callable[[dict[str, Any]], int]

_LETTERS = bytes(range(0x41, 0x5B)) + bytes(range(0x61, 0x7B)) + b" "
_ASCII = bytes(range(0x80))
_NOT_EAST_ASIAN = bytes(byte for byte in range(0x100) if not 0xE3 <= byte <= 0xED)
_DENSE = re.compile(rb"[A-Za-z0-9+/=_-]{25,}")  # keys, ids, base64: no words in there


def estimate(message: dict[str, Any]) -> int:
    """Tokens of a message, rather too many than too few.

    Counted over its JSON text, names and punctuation included: two sevenths of a token for a
    letter or blank, three quarters for a digit, a sign, or a character of a run without words
    (a key, base64); one and a half for a Chinese, Japanese or Korean character; two thirds for a
    byte of any other script.
    """
    text = encode(message, "the message").encode()
    dense = sum(map(len, _DENSE.findall(text)))
    if dense:
        text = _DENSE.sub(b"", text)
    signs = len(text.translate(None, _LETTERS))
    letters = len(text) - signs
    if text.isascii():
        return (letters * 2) // 7 + ((signs + dense) * 3) // 4 + 1
    high = len(text.translate(None, _ASCII))
    east_asian = len(text.translate(None, _NOT_EAST_ASIAN))
    other = max(0, high - 3 * east_asian)
    return (
        (letters * 2) // 7
        + ((signs - high + dense) * 3) // 4
        + (east_asian * 3) // 2
        + (other * 2) // 3
        + 1
    )


def checked(count: Count, message: dict[str, Any]) -> int:
    """Return the count of the user's counter, if it is a number of tokens."""
    tokens = count(message)
    if type(tokens) is not int or tokens < 0:
        raise InvalidInput(
            f"count= returned {tokens!r}; it takes a message and returns its tokens as a whole "
            "number, e.g. lambda message: len(encoding.encode(json.dumps(message)))"
        )
    return tokens
