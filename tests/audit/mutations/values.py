"""Values that do not come back as they were stored: what real stores and serialisers do to them."""

from __future__ import annotations

import html
import json
import re
import struct
import unicodedata
from collections.abc import Callable
from typing import Any

from audit.mutations import conditions
from audit.mutations.mutant import Around, Json, Mutant, Sound

Change = Callable[[Any], Any]


def strings(change: Callable[[str], Any]) -> Change:
    """To every string that is a value."""

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, dict):
            return {name: changed(each) for name, each in value.items()}
        return [changed(each) for each in value] if isinstance(value, list) else value

    return changed


def scalars(change: Change) -> Change:
    """To everything that is neither a list nor an object."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(each) for name, each in value.items()}
        return [changed(each) for each in value] if isinstance(value, list) else change(value)

    return changed


def names(change: Callable[[str], str]) -> Change:
    """To the names of fields."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {change(name): changed(each) for name, each in value.items()}
        return [changed(each) for each in value] if isinstance(value, list) else value

    return changed


def fields(keep: Callable[[str, Any], bool]) -> Change:
    """Without those that are not kept, at any depth."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(each) for name, each in value.items() if keep(name, each)}
        return [changed(each) for each in value] if isinstance(value, list) else value

    return changed


def lists(change: Callable[[list[Any]], Any]) -> Change:
    """To every list."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(each) for name, each in value.items()}
        return change([changed(each) for each in value]) if isinstance(value, list) else value

    return changed


def cut(most: int) -> Change:
    return strings(lambda text: text[:most])


def cut_bytes(most: int) -> Change:
    return strings(lambda text: text.encode(errors="replace")[:most].decode(errors="ignore"))


def flattened(value: Any) -> Any:
    """{"a": {"b": 1}} as {"a.b": 1}."""
    if not isinstance(value, dict):
        return value
    flat: Json = {}
    for name, each in value.items():
        if isinstance(each, dict) and each:
            flat |= {f"{name}.{inner}": deep for inner, deep in flattened(each).items()}
        else:
            flat[name] = each
    return flat


def texts_below(depth: int) -> Change:
    """Objects as text, from some depth on."""

    def changed(value: Any, left: int) -> Any:
        if isinstance(value, (dict, list)) and left == 0:
            return json.dumps(value)
        if isinstance(value, dict):
            return {name: changed(each, left - 1) for name, each in value.items()}
        return [changed(each, left - 1) for each in value] if isinstance(value, list) else value

    return lambda value: changed(value, depth)


def empty_below(depth: int) -> Change:
    """Nothing in objects, from some depth on."""

    def changed(value: Any, left: int) -> Any:
        if isinstance(value, dict):
            return {name: changed(each, left - 1) for name, each in value.items()} if left else {}
        return [changed(each, left - 1) for each in value] if isinstance(value, list) else value

    return lambda value: changed(value, depth)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return value


def _astral(text: str) -> str:
    return "".join("\ufffd" if ord(each) > 0xFFFF else each for each in text)


def _unaccented(text: str) -> str:
    apart = unicodedata.normalize("NFD", text)
    return "".join(each for each in apart if not unicodedata.combining(each))


def _as_yaml(text: str) -> Any:
    return {"no": False, "yes": True, "off": False, "on": True, "null": None, "~": None}.get(
        text.lower(), text
    )


def _number(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else text


def _surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# name → what is done to a value, and what a user would notice of it.
CHANGES: dict[str, tuple[Change, str]] = {
    "latin1": (
        strings(lambda text: text.encode("latin-1", "replace").decode("latin-1")),
        "everything but Western European letters has become question marks",
    ),
    "ascii": (
        strings(lambda text: text.encode("ascii", "ignore").decode()),
        "letters with accents are missing",
    ),
    "unaccented": (strings(_unaccented), "é has become e"),
    "mojibake": (
        strings(lambda text: text.encode("utf-8", "replace").decode("cp1252", "replace")),
        "é has become Ã©",
    ),
    "no_emoji": (strings(_astral), "emoji have become replacement characters"),
    "no_nul": (strings(lambda text: text.replace("\0", "")), "NUL characters are missing"),
    "cut_at_nul": (strings(lambda text: text.partition("\0")[0]), "text ends at a NUL character"),
    "no_control": (
        strings(lambda text: re.sub(r"[\x01-\x08\x0b\x0c\x0e-\x1f]", "", text)),
        "control characters, as terminals print them, are missing",
    ),
    "no_trailing_blanks": (strings(str.rstrip), "blanks and newlines at the end are missing"),
    "no_leading_blanks": (strings(str.lstrip), "the indentation of a first line is missing"),
    "crlf": (strings(lambda text: text.replace("\r\n", "\n")), "CR LF has become LF"),
    "one_line": (strings(lambda text: text.replace("\n", " ")), "line breaks have become blanks"),
    "single_blanks": (
        strings(lambda text: re.sub(" {2,}", " ", text)),
        "code lost its indentation",
    ),
    "nfc": (
        strings(lambda text: unicodedata.normalize("NFC", text)),
        "characters were composed: what was stored is not found by a search for it",
    ),
    "nfkc": (strings(lambda text: unicodedata.normalize("NFKC", text)), "² has become 2, and ﬁ fi"),
    "no_zero_width": (
        strings(lambda text: re.sub("[\u200b-\u200f\u2060\ufeff]", "", text)),
        "joined emoji fall apart, and right-to-left text is in disorder",
    ),
    "html": (strings(html.escape), "< has become &lt;"),
    "unescaped": (
        strings(lambda text: text.replace("\\n", "\n").replace("\\\\", "\\")),
        "a backslash and what follows it in code have become a line break",
    ),
    "no_backslash": (strings(lambda text: text.replace("\\", "")), "backslashes are missing"),
    "quotes": (strings(lambda text: text.replace('"', "'")), "double quotes have become single"),
    "lower": (strings(str.lower), "capitals have become small letters"),
    "percent": (strings(lambda text: text.replace("%", "%%")), "% has become %%"),
    "numeric_strings": (strings(_number), 'the text "007" has become the number 7'),
    "yaml": (strings(_as_yaml), 'the text "no" has become false'),
    "empty_as_null": (strings(lambda text: text or None), "an empty text has become null"),
    "no_nulls": (fields(lambda _, value: value is not None), "fields that are null are missing"),
    "nulls_as_empty": (
        scalars(lambda value: "" if value is None else value),
        "null has become an empty text",
    ),
    "nulls_as_text": (
        scalars(lambda value: "None" if value is None else value),
        'null has become the text "None"',
    ),
    "no_empty": (
        fields(lambda _, value: value not in ([], {})),
        "empty lists and objects are missing",
    ),
    "no_falsy": (
        fields(lambda _, value: bool(value)),
        "fields that are 0, false or empty are missing",
    ),
    "ints_as_floats": (
        scalars(lambda value: float(value) if _is_int(value) and abs(value) < 1 << 1000 else value),
        "a large whole number, such as an id, has other last digits",
    ),
    "ints_53_bits": (
        scalars(
            lambda value: int(float(value)) if _is_int(value) and abs(value) < 1 << 1000 else value
        ),
        "ids beyond 2^53 have other last digits",
    ),
    "ints_64_bits": (
        scalars(
            lambda value: max(-(1 << 63), min((1 << 63) - 1, value)) if _is_int(value) else value
        ),
        "whole numbers beyond 2^63 have become 2^63 - 1",
    ),
    "ints_32_bits": (
        scalars(
            lambda value: (value + (1 << 31)) % (1 << 32) - (1 << 31) if _is_int(value) else value
        ),
        "whole numbers beyond 2^31 have become negative",
    ),
    "floats_rounded": (
        scalars(lambda value: round(value, 6) if isinstance(value, float) else value),
        "numbers are rounded to six digits after the point",
    ),
    "floats_32_bits": (
        scalars(lambda value: _float32(value) if isinstance(value, float) else value),
        "0.1 has become 0.10000000149",
    ),
    "floats_as_text": (
        scalars(lambda value: str(value) if isinstance(value, float) else value),
        "numbers with a point have become text",
    ),
    "floats_as_ints": (
        scalars(
            lambda value: int(value) if isinstance(value, float) and abs(value) < 1e300 else value
        ),
        "numbers have lost what is after their point",
    ),
    "bools_as_ints": (
        scalars(lambda value: int(value) if isinstance(value, bool) else value),
        "true has become 1",
    ),
    "bools_as_text": (
        scalars(lambda value: str(value) if isinstance(value, bool) else value),
        'true has become the text "True"',
    ),
    "flattened": (flattened, 'an object within has become fields named "a.b"'),
    "objects_as_text": (texts_below(1), "objects and lists within have become text"),
    "deep_as_text": (texts_below(3), "what is four levels deep has become text"),
    "deep_lost": (empty_below(3), "what is four levels deep is missing"),
    "names_lower": (names(str.lower), "names of fields have become small letters"),
    "names_snake": (
        names(lambda name: re.sub("(?<=[a-z])([A-Z])", r"_\1", name).lower()),
        'the field "userName" has become "user_name"',
    ),
    "names_without_dots": (
        names(lambda name: name.replace(".", "_")),
        'the field "a.b" has become "a_b"',
    ),
    "names_without_dollar": (
        fields(lambda name, _: not name.startswith("$")),
        "fields whose names begin with $ are missing",
    ),
    "private_names": (
        fields(lambda name, _: not name.startswith("_")),
        "fields whose names begin with _ are missing",
    ),
    "empty_names": (fields(lambda name, _: name != ""), "a field without a name is missing"),
    "names_ascii": (
        names(lambda name: name.encode("ascii", "ignore").decode()),
        "names of fields have lost their accents",
    ),
    "reserved_names": (
        fields(lambda name, _: name not in ("id", "version", "timestamp", "metadata")),
        "the fields id, version, timestamp and metadata are missing",
    ),
    "lists_sorted": (
        lists(lambda found: sorted(found, key=lambda each: json.dumps(each, sort_keys=True))),
        "lists are in another order",
    ),
    "lists_as_sets": (
        lists(lambda found: [each for at, each in enumerate(found) if each not in found[:at]]),
        "what was twice in a list is there once",
    ),
    "lists_of_one": (
        lists(lambda found: found[0] if len(found) == 1 else found),
        "a list of one has become that one",
    ),
    "lists_as_objects": (
        lists(lambda found: {str(at): each for at, each in enumerate(found)}),
        "lists have become objects with numbers for names",
    ),
    "lists_cut@10": (lists(lambda found: found[:10]), "lists end after ten"),
    "truncate@200": (cut(200), "text ends after 200 characters"),
    "truncate@255bytes": (cut_bytes(255), "text ends after 255 bytes"),
    "truncate@4000": (cut(4000), "text ends after 4,000 characters"),
    "truncate@64kb": (cut_bytes(65535), "text ends after 64 KB"),
    "truncate@256kb": (cut_bytes(262144), "text ends after 256 KB"),
    "truncate@200bytes_torn": (
        strings(lambda text: text.encode(errors="replace")[:200].decode(errors="replace")),
        "text ends after 200 bytes, in the middle of a character",
    ),
}
# Those of which the other place would notice nothing else.
MESSAGES_ONLY = ("single_blanks", "one_line", "percent")


def in_messages(change: Change) -> dict[str, Around]:
    async def append(sound: Sound, thread: str, messages: Any, key: str, **more: Any) -> Any:
        return await sound.append(thread, [change(each) for each in messages], key, **more)

    return {"append": append}


def in_users(change: Change) -> dict[str, Around]:
    async def put_user(sound: Sound, user: str, value: Json, **more: Any) -> Any:
        return await sound.put_user(user, change(value), **more)

    async def update_user(sound: Sound, user: str, changing: Any) -> Any:
        def changed(value: Json) -> Any:
            said = changing(value)
            return change(value if said is None else said)

        return await sound.update_user(user, changed)

    return {"put_user": put_user, "update_user": update_user}


def in_results(change: Change) -> dict[str, Around]:
    """Of tasks: whoever is given a stored result."""

    async def run_once(sound: Sound, task: str, function: Any) -> Any:
        async def changed() -> Any:
            return change(await function())

        return await sound.run_once(task, changed)

    return {"run_once": run_once}


def in_history_read(change: Change) -> dict[str, Around]:
    async def load(sound: Sound, thread: str, last: int | None) -> Any:
        return [change(each) for each in await sound.load(thread, last)]

    return {"load": load}


def in_user_read(change: Change) -> dict[str, Around]:
    async def get_user(sound: Sound, user: str) -> Any:
        value, version = await sound.get_user(user)
        return change(value), version

    return {"get_user": get_user}


def _all() -> list[Mutant]:
    found = []
    for name, (change, noticed) in CHANGES.items():
        found.append(
            Mutant(
                f"messages.{name}",
                f"In what was said, {noticed}.",
                ("messages kept",),
                in_messages(change),
            )
        )
        if name not in MESSAGES_ONLY:
            found.append(
                Mutant(
                    f"users.{name}",
                    f"In what is known of a user, {noticed}.",
                    ("users kept",),
                    in_users(change),
                )
            )
    for name in ("latin1", "no_nulls", "truncate@200", "objects_as_text"):
        change, noticed = CHANGES[name]
        found += [
            Mutant(
                f"messages.{name}@restart",
                f"After a restart, and in other replicas, {noticed} in what was said.",
                ("messages kept",),
                in_history_read(change),
                when=conditions.written_elsewhere,
            ),
            Mutant(
                f"users.{name}@restart",
                f"After a restart, and in other replicas, {noticed} in what is known of a user.",
                ("users kept",),
                in_user_read(change),
                when=conditions.written_elsewhere,
            ),
        ]
    for name in ("latin1", "no_trailing_blanks", "ints_53_bits", "flattened"):
        change, noticed = CHANGES[name]
        found += [
            Mutant(
                f"messages.{name}@large",
                f"In long messages only, {noticed}.",
                ("messages kept",),
                in_messages(change),
                when=conditions.large_value,
            ),
            Mutant(
                f"users.{name}@large",
                f"For users of whom much is known, {noticed}.",
                ("users kept",),
                in_users(change),
                when=conditions.large_value,
            ),
        ]
    for name in ("latin1", "truncate@200", "no_nulls", "objects_as_text", "floats_rounded"):
        change, noticed = CHANGES[name]
        found.append(
            Mutant(
                f"results.{name}",
                f"In the result of a task, {noticed}.",
                ("results kept",),
                in_results(change),
            )
        )
    return found


MUTANTS = _all()
