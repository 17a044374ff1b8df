"""Documents and messages as objects of a type."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, TypedDict

import msgspec
import pydantic

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.errors import InvalidInput
from stateward.testing.conformance.harness import raises

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Address:
    town: str = ""


@dataclass
class Preferences:
    theme: str = "light"
    since: datetime | None = None
    tags: list[str] = field(default_factory=list)
    home: Address = field(default_factory=Address)


class StructPreferences(msgspec.Struct):
    theme: str = "light"
    since: datetime | None = None
    tags: list[str] = []


class ModelPreferences(pydantic.BaseModel):
    theme: str = pydantic.Field("light", alias="colour_theme")
    since: datetime | None = None
    tags: list[str] = []


class DictPreferences(TypedDict, total=False):
    theme: str
    tags: list[str]


@dataclass
class Line:
    role: str
    content: str


class StructLine(msgspec.Struct):
    role: str
    content: str


class ModelLine(pydantic.BaseModel):
    role: str
    content: str


@case
async def a_document_comes_back_as_the_object_that_was_put(h: StoreHarness) -> None:
    a = Preferences("dark", SINCE, ["a"], Address("Bern"))
    b = StructPreferences("dark", SINCE, ["a"])
    c = ModelPreferences(colour_theme="dark", since=SINCE, tags=["a"])
    d: DictPreferences = {"theme": "dark", "tags": ["a"]}
    async with h.store() as store:
        user = store.user("u")
        for name, kind, value in (
            ("dataclass", Preferences, a),
            ("struct", StructPreferences, b),
            ("model", ModelPreferences, c),
            ("typeddict", DictPreferences, d),
        ):
            handle: Any = user.document(name, kind)
            assert (await handle.get()).version == 0
            put = await handle.put(value)
            read = await handle.get()
            assert read.value == put.value == value
            assert type(read.value) is type(value)
            assert (read.version, put.version) == (1, 1)
        assert (await user.get("dataclass")).value["home"] == {"town": "Bern"}
        assert (await user.get("model")).value["colour_theme"] == "dark"


@case
async def a_missing_document_is_an_object_with_its_defaults(h: StoreHarness) -> None:
    async with h.store() as store:
        missing = await store.user("u").document("prefs", Preferences).get()
        assert (missing.value, missing.exists) == (Preferences(), False)
        with raises(InvalidInput) as refused:  # nothing says what its fields would be
            await store.user("u").document("line", Line).get()
        assert "line" in str(refused.error)
        assert "role" in str(refused.error)


@case
async def an_update_changes_the_object_and_keeps_what_its_type_does_not_know(
    h: StoreHarness,
) -> None:
    newer = {"theme": "dark", "font": "large", "home": {"town": "Bern", "zip": "3000"}}
    async with h.store() as store:
        user = store.user("u")
        prefs = user.document("prefs", Preferences)
        await user.put(newer, "prefs")

        def move(value: Preferences) -> None:
            value.home.town = "Basel"
            value.tags.append("moved")

        changed = await prefs.update(move)
        assert changed.value.home == Address("Basel")
        changed = await prefs.update(lambda value: replace(value, theme="light"))
        assert changed.value == Preferences("light", None, ["moved"], Address("Basel"))
        assert (await user.get("prefs")).value == {
            "theme": "light",
            "since": None,
            "tags": ["moved"],
            "home": {"town": "Basel", "zip": "3000"},
            "font": "large",
        }
        patched = await prefs.patch({"home": {"town": None}, "theme": "dark"})
        assert patched.value == Preferences("dark", None, ["moved"], Address())
        assert (await user.get("prefs")).value["home"] == {"zip": "3000"}


@case
async def a_merge_is_of_objects_too(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        prefs = user.document("prefs", Preferences)
        await user.put({"tags": ["a"], "font": "large"}, "prefs")

        async def meanwhile(value: Preferences) -> None:
            if "mine" not in value.tags and (await user.get("prefs")).version == 1:
                await user.patch({"tags": ["a", "theirs"]}, "prefs")
            value.tags.append("mine")

        def merged(base: Preferences, mine: Preferences, theirs: Preferences) -> Preferences:
            added = [tag for tag in mine.tags if tag not in base.tags]
            return replace(theirs, tags=theirs.tags + added)

        result = await prefs.update(meanwhile, conflict=merged)
        assert result.value.tags == ["a", "theirs", "mine"]
        assert (await user.get("prefs")).value["font"] == "large"


@case
async def what_does_not_fit_the_type_is_refused_and_nothing_is_written(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        prefs: Any = user.document("prefs", Preferences)
        await user.put({"theme": 7}, "prefs")
        for call in (
            prefs.get,
            lambda: prefs.update(lambda value: value),
            lambda: prefs.patch({"tags": "none"}),
            lambda: prefs.put(Preferences(theme=7)),  # type: ignore[arg-type]
            lambda: prefs.put("dark"),
            lambda: user.document("prefs", Preferences).put(Preferences(tags=[object()])),  # type: ignore[list-item]
        ):
            with raises(InvalidInput) as refused:
                await call()
            assert "prefs" in str(refused.error)
        assert (await user.get("prefs")).value == {"theme": 7}
        no_shape: Any = object
        with raises(InvalidInput):
            await user.document("prefs", no_shape).put(object())


class Base(pydantic.BaseModel):
    name: str = ""


class More(Base):
    price: int = 0


class Account(pydantic.BaseModel):
    """Fields as people declare them, some of which their dump leaves out."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    token: pydantic.SecretStr = pydantic.SecretStr("")
    keys: list[pydantic.SecretBytes] = []
    visits: int = 0
    hidden: int = pydantic.Field(default=0, exclude=True)
    item: Base = Base()
    user_name: str = pydantic.Field(
        default="", validation_alias=pydantic.AliasChoices("userName", "user_name")
    )
    since: date | None = None
    _cache: int = 0


@case
async def what_a_model_would_not_read_back_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        account = user.document("account", Account)
        lost: dict[str, Any] = {
            "token": pydantic.SecretStr("s3cret"),
            "keys": [pydantic.SecretBytes(b"s3cret")],
            "hidden": 1,
            "item": More(name="tea", price=5),
        }
        for name, value in lost.items():
            with raises(InvalidInput) as caught:
                await account.put(Account(**{name: value}))
            assert name in str(caught.error)

            def change(it: Account, name: str = name, value: Any = value) -> None:
                setattr(it, name, value)

            with raises(InvalidInput):
                await account.update(change)
        assert not (await user.get("account")).exists
        kept = Account(visits=1, userName="ann", since=date(2027, 1, 1), item=Base(name="tea"))  # type: ignore[call-arg]
        kept._cache = 7
        assert (await account.put(kept)).value == (await account.get()).value
        assert (await account.get()).value.user_name == "ann"


@case
async def an_update_leaves_secrets_alone_and_replaces_other_aliases(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        account = user.document("account", Account)
        stored = {"token": "s3cret", "keys": ["a", "b"], "userName": "old", "newer": [1]}
        await user.put(stored, "account")

        def change(it: Account) -> None:
            it.visits += 1
            it.user_name = "new"

        updated = await account.update(change)
        assert updated.value.token.get_secret_value() == "s3cret"
        read = await account.get()
        assert (read.value.user_name, read.value.visits) == ("new", 1)
        value = (await user.get("account")).value
        assert [value["token"], value["keys"], value["newer"]] == ["s3cret", ["a", "b"], [1]]
        assert "userName" not in value


@case
async def messages_are_objects_of_a_type_if_wanted(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(Line("user", "hi"), StructLine("assistant", "hello"))
        window = await thread.load()
        assert window.messages == [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
        ]
        assert window.as_type(Line) == [Line("user", "hi"), Line("assistant", "hello")]
        assert window.as_type(StructLine)[1] == StructLine("assistant", "hello")
        assert window.as_type(ModelLine)[0] == ModelLine(role="user", content="hi")
        with raises(InvalidInput) as refused:
            await thread.append(ModelLine(role="user", content="hi"))
        assert "model_dump" in str(refused.error)
        await thread.append({"role": "tool"})
        with raises(InvalidInput) as refused:
            (await thread.load()).as_type(Line)
        assert "content" in str(refused.error)


@case
async def a_message_of_a_type_is_redacted_and_told_as_what_it_holds(h: StoreHarness) -> None:
    def redact(message: dict[str, Any]) -> dict[str, Any]:
        return {**message, "content": "…"}

    async with h.store(redact=redact) as store:
        await store.thread("t").append(Line("user", "a secret"))
        assert (await store.thread("t").load()).messages == [{"role": "user", "content": "…"}]
