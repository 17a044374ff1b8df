"""Values and ids as users really send them: every script, every size, every kind of JSON.

Made from a seed, so that every replica knows what another has written without being told.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

PLANES = {
    "Latin-1": (0xA0, 0xFF),
    "Greek and Cyrillic": (0x370, 0x4FF),
    "Hebrew and Arabic": (0x5D0, 0x6D0),
    "Devanagari to Thai": (0x900, 0xE30),
    "CJK": (0x4E00, 0x9FFF),
    "Hangul": (0xAC00, 0xD7A3),
    "private use": (0xE000, 0xF8FF),
    "specials of plane 0": (0xFE00, 0xFFEF),
    "plane 1": (0x10000, 0x1F9FF),
    "plane 2": (0x20000, 0x2A6DF),
    "plane 3": (0x30000, 0x3134A),
    "plane 14": (0xE0020, 0xE01EF),
    "plane 15": (0xF0000, 0xFFFFD),
    "plane 16": (0x100000, 0x10FFFD),
}
TEXTS = {
    "an empty text": "",
    "one blank": " ",
    "leading blanks": "  two before",
    "trailing blanks": "two after  ",
    "a trailing line end": "line\n",
    "a leading line end": "\nline",
    "line ends of all kinds": "a\r\nb\rc\nd\x0be\x0cf\x85g\u2028h\u2029i",
    "tabs": "\ta\t\tb\t",
    "several blanks": "a    b\u00a0\u00a0c\u3000d",
    "control characters": "".join(map(chr, range(1, 32))) + "\x7f",
    "quotes": 'it\'s "quoted", `so` and \\ so \\n \\\\',
    "SQL": "'); DROP TABLE messages; -- %s ? :name $1 {0} %(x)s",
    "markup": "<b>&amp;</b> <script>alert(1)</script> &#65; ]]>",
    "a template": "{{name}} ${HOME} {name!r} %d %% #{x}",
    "a text like JSON": '{"role": "user", "n": null}',
    "a text like a list": "[1, 2]",
    "the text null": "null",
    "the text true": "true",
    "the text None": "None",
    "the text no": "no",
    "the text on": "on",
    "a tilde": "~",
    "a text like an int": "0123",
    "a text like a float": "1.50",
    "a text like a large number": "12345678901234567890",
    "a text like a date": "2024-02-30T12:00:00Z",
    "a text like base64": "aGVsbG8gd29ybGQ=",
    "a text like escapes": "\\u00e9 \\x41 %41 =?utf-8?q?x?=",
    "emoji": "😀🚀👍🏽🇩🇪",
    "emoji that are joined": "👩‍👩‍👧‍👦 🏳️‍🌈 👨🏿‍💻",
    "composed letters": unicodedata.normalize("NFC", "é ñ ö Å 각 ｶﾞ"),
    "decomposed letters": unicodedata.normalize("NFD", "é ñ ö Å 각"),
    "compatibility forms": "ﬁ ① Ⅷ ｈａｌｆ ² K Ω",
    "letters that change length by case": "ß İ ŉ ǰ ΐ ﬀ",
    "combining marks": "Z̷̳̲̿a̵l̶g̸o̴",
    "right to left": "\u202eabc\u202c \u200fעברית\u200e",
    "invisible characters": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg",
    "a byte order mark": "\ufeffbegin",
    "mojibake": "Ã©â‚¬",
}
LENGTHS = (200, 201, 256, 257, 400, 500, 1000, 2000, 4096, 8192, 16_384, 65_535, 65_536, 70_000)
LARGEST = 1_000_000
EXTREME_TEXTS = {"a NUL": "a\0b", "a NUL at the end": "ab\0"}
VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "a negative number": -7,
    "0.1": 0.1,
    "a sum of floats": 0.1 + 0.2,
    "a small float": 1.25e-7,
    "a negative float": -12345.678901234567,
    "2**31": 2**31,
    "2**53 + 1": 2**53 + 1,
    "-(2**53 + 1)": -(2**53) - 1,
    "2**63 - 1": 2**63 - 1,
    "an empty list": [],
    "an empty object": {},
    "empty ones inside": {"a": [], "b": {}, "c": [[]], "d": [{}], "e": ""},
    "nulls inside": {"a": None, "b": [None, 1, None], "c": {"d": None}},
    "true beside one": [True, 1, False, 0, "1", "true"],
    "numbers as keys": {"1": "a", "01": "b", "1.0": "c", "-1": "d", "true": "e", "null": "f"},
    "odd keys": {"": 1, " ": 2, "a.b": 3, "$set": 4, "a/b": 5, "é": 6, "🚀": 7, "__x__": 8},
    "keys that differ by case": {"name": 1, "Name": 2, "NAME": 3},
    "keys that differ by form": {"\u00e9": 1, "e\u0301": 2},
    "reserved names": {"id": 1, "type": 2, "key": 3, "role": 4, "_id": 5, "version": 6},
    "a list that repeats": [1, 1, 2, 2, "a", "a", None, None],
    "a list not in order": [3, 1, 2, "b", "a", 10, 9],
    "numbers not in order": [3, 1, 2],
    "names not in order": ["b", "a", "c", "a"],
    "a list of one": [7],
    "a list of one object": [{"a": 1}],
    "names in other styles": {"userName": 1, "user_name": 2, "UserName": 3, "user-name": 4},
    "names that stores use": {"id": 1, "version": 2, "timestamp": 3, "metadata": {"a": 1},
                              "created_at": 4, "_private": 5, "ttl": 6, "data": [7]},
    "what is empty": {"zero": 0, "no": False, "none": None, "text": "", "list": [], "object": {}},
    "a thousand numbers": list(range(1000)),
    "many keys": {f"key-{n}": n for n in range(300)},
    "lists in lists": [[[[[1], 2], 3], 4], [[], [[]]]],
    "20 levels of objects": None,  # see below
    "20 levels of lists": None,
}  # fmt: skip
EXTREME_VALUES: dict[str, Any] = {
    "2**63": 2**63,
    "2**64 + 1": 2**64 + 1,
    "10**30 + 1": 10**30 + 1,
    "-(2**63) - 1": -(2**63) - 1,
    "a key with a NUL": {"a\0b": 1},
}
BARE = ("7", "07", "007", "7.0", "+7", "0x7", "x", "X", " x", "x ", "%", "_", "*", "?", "None")
RANDOM = 24  # documents that are made by chance


class Odd(NamedTuple):
    """One unusual value; a memory may refuse an `extreme` one with an error."""

    label: str
    value: Any
    extreme: bool = False


def texts(seed: int) -> Iterator[Odd]:
    chance = random.Random(f"{seed}/texts")
    for label, text in TEXTS.items():
        yield Odd(label, text)
    for name, (first, last) in PLANES.items():
        assigned = [chr(chance.randint(first, last)) for _ in range(24)]
        yield Odd(f"characters of {name}", "".join(assigned))
    for length in LENGTHS:
        yield Odd(f"{length:,} characters", long_text(chance, length))
    yield Odd("30,000 characters of two to four bytes", wide_text(chance, 30_000))
    yield Odd("200 characters of two to four bytes", wide_text(chance, 200))
    odd = "  \n\t'\"<&>\\ é e\u0301 😀 % {} ﬁ \u200d "
    yield Odd("12,000 characters with all that is odd", f"{odd}{long_text(chance, 12_000)}{odd}")
    yield Odd("a megabyte", long_text(chance, LARGEST), True)
    for label, text in EXTREME_TEXTS.items():
        yield Odd(label, text, True)


def values(seed: int) -> Iterator[Odd]:
    objects: Any = {"end": True}
    lists: Any = ["end"]
    for level in range(19):
        objects, lists = {"level": level, "inner": objects}, [level, lists]
    deep = {"20 levels of objects": objects, "20 levels of lists": lists}
    for label, value in VALUES.items():
        yield Odd(label, deep.get(label, value))
    for label, value in EXTREME_VALUES.items():
        yield Odd(label, value, True)
    chance = random.Random(f"{seed}/values")
    large: dict[str, Any] = {"filling": long_text(chance, 15_000)}
    for number, (label, value) in enumerate(VALUES.items()):
        large[f"{number}"] = deep.get(label, value)
    yield Odd("a large one with all that is odd", large)
    for number in range(RANDOM):
        yield Odd(f"document {number} of seed {seed}", random_value(chance, 5))


def long_text(chance: random.Random, length: int) -> str:
    """Return a text without repetition whose last words mark its end."""
    words, size = [], 0
    while size < length:
        words.append(f"{chance.getrandbits(64):x}")
        size += len(words[-1]) + 1
    return " ".join(words)[: length - 3] + "end"


def wide_text(chance: random.Random, length: int) -> str:
    return "".join(chance.choices("éßЖ漢字😀🚀𠀀aZ \n", k=length))


def random_value(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(8 if depth else 6)
    if kind == 0:
        return chance.choice([None, True, False])
    if kind == 1:
        return chance.choice([chance.randint(-9, 9), chance.randint(-(2**62), 2**62)])
    if kind == 2:
        return chance.randint(-(10**9), 10**9) / 1024
    if kind <= 5:
        return random_text(chance, chance.randint(0, 40))
    if kind == 6:
        return [random_value(chance, depth - 1) for _ in range(chance.randint(0, 5))]
    keys = [random_text(chance, chance.randint(0, 12)) for _ in range(chance.randint(0, 6))]
    return {key: random_value(chance, depth - 1) for key in keys}


def random_text(chance: random.Random, length: int) -> str:
    ranges = [(0x20, 0x7E), *PLANES.values()]
    characters = []
    for _ in range(length):
        first, last = chance.choice(ranges)
        characters.append(chr(chance.randint(first, last)))
    return "".join(characters)


def ids(base: str, bare: bool = False) -> Iterator[Odd]:
    """Return ids that look alike but all differ. The value is the id.

    `bare`: also some that do not begin with `base`.
    """
    for id in BARE if bare else ():
        yield Odd(f"the id {id!r}", id)
    plain = [
        "a", "A", "a ", "a-", "ab", "a/b", "a//b", "a/b/", "a/../b", "a\\b", "a:b", "a:b:c", "a|b",
        "a;b", "a,b", "a%", "a_", "a_b", "a%b", "axb", "a*", "a?", "a[b]", "a[", "a{b}", "a.b",
        "a.", "..", "a'b", 'a"b', "a b", "a\tb", "a+b", "a%20b", "a%2Fb", "a&b=c", "a#b", "a@b",
        "a~", "a$b", "a!b", "a^b", "<a>", "1", "01", "001", "1.0", "10", "100", "-1", "None",
        "null", "true", "e", "é", "e\u0301", "É", "漢字", "😀", "ß", "ss", "ı", "i", "K",
        "k", "\u212a",
    ]  # fmt: skip
    for tail in plain:
        yield Odd(f"the id …{tail}", f"{base}-{tail}")
    for length in (63, 64, 65, 100, 128, 129, 200):
        # Two that differ in nothing but their end.
        for end in "xy":
            yield Odd(f"an id of {length} bytes that ends with {end}", _filled(base, length, end))
    for length in (255, 256, 300, 600):
        for end in "xy":
            label = f"an id of {length} bytes that ends with {end}"
            yield Odd(label, _filled(base, length, end), True)
    for end in "xy":
        yield Odd(f"an id with a NUL that ends with {end}", f"{base}-a\0{end}", True)
        yield Odd(f"an id of 60 Chinese characters and {end}", f"{base}-{'漢' * 60}{end}", True)


def _filled(base: str, length: int, end: str) -> str:
    start = f"{base}-{length}-"
    return start + "-" * max(0, length - len(start) - 1) + end


def conversation() -> list[dict[str, Any]]:
    """Return one turn with all that a message can have."""
    call = {"id": "call_1", "type": "function"}
    weather = {"name": "weather", "arguments": '{"city": "Zürich", "days": 3}'}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is this?", "name": "Zoë"},
        {"role": "user", "content": [{"type": "text", "text": "And this?"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [{**call, "function": weather}]},
        {"role": "tool", "content": '{"sun": true}', "tool_call_id": "call_1"},
        {"role": "assistant", "content": "Sunny.", "metadata": {"tokens": 12, "cost": 0.00031}},
        {"role": "user", "content": "", "attachments": [], "edited": False, "score": None},
    ]
