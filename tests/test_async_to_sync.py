"""The generator of the blocking twin, on small sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

import async_to_sync

MODULES = {
    "stateward": "stateward",
    "stateward.errors": "stateward.errors",
    "stateward.layers": "stateward.layers",
    "stateward.layers.coalescer": "stateward.layers.coalescer_sync",
    "stateward.state": "stateward.sync.state",
    "stateward.state.threads": "stateward.sync.state.threads",
    "stateward.state.plain": "stateward.state.plain",
}


def translate(source: str) -> str:
    return async_to_sync.translate(dedent(source), MODULES)


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of the test's own, so that editing the real ones breaks nothing here."""
    files = {
        "_public.py": "sync/__init__.py",
        "state/*.py": "sync/state/",
        "engines/memory/engine.py": "sync/engines/memory.py",
        "nothing/*.py": "sync/nothing/",
    }
    modules = {"stateward.layers.coalescer": "stateward.layers.coalescer_sync"}
    monkeypatch.setattr(async_to_sync, "FILES", files)
    monkeypatch.setattr(async_to_sync, "SHARED", {"state/plain.py"})
    monkeypatch.setattr(async_to_sync, "MODULES", modules)
    for old, new in {"Engine": "SyncEngine", "_world.pause": "_world.block"}.items():
        monkeypatch.setitem(async_to_sync.NAMES, old, new)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package whose twin has not been written yet."""
    sources = {
        "__init__.py": "",
        "_public.py": """
            from stateward.state.threads import Thread

            __all__ = ["Thread"]
            """,
        "errors.py": "class StatewardError(Exception): ...",
        "state/__init__.py": '"""What people store."""',
        "state/plain.py": "def fold(x: int) -> int:\n    return x",
        "state/threads.py": '''
            import asyncio

            from stateward.engines.memory.engine import MemoryEngine
            from stateward.errors import StatewardError
            from stateward.state.plain import fold


            class Thread:
                """A conversation."""

                async def load(self, engine: MemoryEngine) -> int:
                    try:
                        return fold(await engine.execute(1))
                    except StatewardError:
                        await asyncio.sleep(1)  # async only
                        return 0
            ''',
        "engines/memory/engine.py": """
            class MemoryEngine:
                async def execute(self, x: int) -> int:
                    return x
            """,
    }
    root = tmp_path / "src" / "stateward"
    for name, text in sources.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), "utf-8")
    return root


@pytest.fixture
def run(package: Path) -> Callable[..., int]:
    return lambda *flags: async_to_sync.main([*flags, "--package", str(package)])


def test_keywords_go_and_the_rest_of_the_line_stays() -> None:
    source = """
        async def read(store):
            async with store.thread("t") as thread, store.lock("l"):
                async for change in thread.changes():
                    yield await thread.load(last=20), [x async for x in change]
        """
    assert translate(source) == dedent("""
        def read(store):
            with store.thread("t") as thread, store.lock("l"):
                for change in thread.changes():
                    yield thread.load(last=20), [x for x in change]
        """)


def test_protocol_names_and_types_have_blocking_counterparts() -> None:
    source = """
        class Feed:
            async def __aenter__(self) -> "AsyncIterator[int]": ...
            async def __aexit__(self, *error: object) -> None: await self.aclose()
            def __aiter__(self) -> AsyncIterator[int]: ...
            async def __anext__(self) -> int: raise StopAsyncIteration
        @contextlib.asynccontextmanager
        async def opened() -> AsyncGenerator[Feed, None]: ...
        many: AsyncIterable[AbstractAsyncContextManager[Feed]]
        closing = contextlib.aclosing(x)
        """
    assert translate(source) == dedent("""
        class Feed:
            def __enter__(self) -> "Iterator[int]": ...
            def __exit__(self, *error: object) -> None: self.close()
            def __iter__(self) -> Iterator[int]: ...
            def __next__(self) -> int: raise StopIteration
        @contextlib.contextmanager
        def opened() -> Generator[Feed, None]: ...
        many: Iterable[AbstractContextManager[Feed]]
        closing = contextlib.closing(x)
        """)


def test_an_awaitable_becomes_what_it_holds() -> None:
    source = "work: Callable[..., Awaitable[list[dict[str, int]]]] | Coroutine[Any, Any, int]\n"
    assert translate(source) == "work: Callable[..., list[dict[str, int]]] | int\n"


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        ("a = (await x.load(last=(1, 2))).messages", "a = x.load(last=(1, 2)).messages"),
        ("a = (await (await x.f()).g(')'))['k']", "a = x.f().g(')')['k']"),
        ("if (await x()) is None: pass", "if x() is None: pass"),
        ("a = f(await x.load()).b", "a = f(x.load()).b"),
        ("a = (await x + await y).b", "a = (x + y).b"),
        ("a = (await x or y).b", "a = (x or y).b"),
        ("a = (await x, y)", "a = (x, y)"),
    ],
)
def test_parentheses_that_only_held_an_await_go_with_it(source: str, twin: str) -> None:
    assert translate(f"async def f():\n    {source}\n") == f"def f():\n    {twin}\n"


def test_names_of_the_table_change_in_code_but_not_in_prose() -> None:
    source = '''
        class Suite:
            """Proves an `Engine`. Engine errors are kept."""

            engine: "Engine"  # the Engine under test, an `Engine`

            async def slow(self, engines: EngineList) -> None:
                await self._world.pause(1)
                self.tape.pause("Engine failed", f"{Engine} await the reply")
        '''
    assert translate(source) == dedent('''
        class Suite:
            """Proves an `SyncEngine`. Engine errors are kept."""

            engine: "SyncEngine"  # the Engine under test, an `SyncEngine`

            def slow(self, engines: EngineList) -> None:
                self._world.block(1)
                self.tape.pause("Engine failed", f"{Engine} await the reply")
        ''')


def test_examples_in_docstrings_and_messages_are_translated_too() -> None:
    source = '''
        """Callers await the reply.

            async with stateward.open(url) as store:
                await store.thread("t").load()
        """
        hint = f"{await size()} left: use `async with`"
        '''
    assert translate(source) == dedent('''
        """Callers await the reply.

            with stateward.sync.open(url) as store:
                store.thread("t").load()
        """
        hint = f"{size()} left: use `with`"
        ''')


def test_odd_line_separators_in_a_string_shift_nothing() -> None:
    source = "async def f():\n    return 'a\u2028b\x0c', await g('Engine'), Engine\n"
    twin = "def f():\n    return 'a\u2028b\x0c', g('SyncEngine'), SyncEngine\n"
    assert translate(source) == twin


def test_imports_follow_the_modules_that_have_a_twin() -> None:
    source = """
        import stateward.state.threads
        from stateward.errors import StatewardError
        from stateward.layers.coalescer import Coalescer
        from stateward.state import threads
        from stateward.state.plain import fold
        from stateward.state.threads import Thread
        path = "stateward.state.threads:Thread"
        other = stateward.state.threads_of_others, unstateward.state.threads
        """
    assert translate(source) == dedent("""
        import stateward.sync.state.threads
        from stateward.errors import StatewardError
        from stateward.layers.coalescer_sync import Coalescer
        from stateward.sync.state import threads
        from stateward.state.plain import fold
        from stateward.sync.state.threads import Thread
        path = "stateward.sync.state.threads:Thread"
        other = stateward.sync.state.threads_of_others, unstateward.state.threads
        """)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("from .threads import Thread\n", "line 1: write the import absolute"),
        ("\nfrom stateward.layers import coalescer\n", "line 2: import names from"),
        ("from stateward.state import plain\n", "line 1: import names from"),
        ("x = 1\n# async only: begin\n", "line 2: `async only: begin` without"),
        ("# async only: end\n", "line 1: `async only: end` without"),
    ],
)
def test_what_would_go_wrong_silently_is_refused(source: str, reason: str) -> None:
    with pytest.raises(async_to_sync.Refused, match=reason):
        translate(source)


def test_marked_lines_live_in_one_colour_only() -> None:
    source = """
        async def close(self):
            self.loop = get_running_loop()  # async only
            # async only: begin
            async with timeout(5):
                await self.flush()
            # async only: end
            # sync only: if self.flush(5):
            # sync only:     return
            self.closed = True
        """
    assert translate(source) == dedent("""
        def close(self):
            if self.flush(5):
                return
            self.closed = True
        """)


def test_a_whole_package_gets_its_twin(package: Path, run: Callable[..., int]) -> None:
    assert run() == 0
    texts = async_to_sync.read_twin(package)
    header = "# GENERATED by tools/async_to_sync.py from {}. Do not edit."
    assert {name: text.splitlines()[0] for name, text in texts.items()} == {
        "sync/__init__.py": header.format("src/stateward/_public.py"),
        "sync/engines/__init__.py": header.format("its table of files"),
        "sync/engines/memory.py": header.format("src/stateward/engines/memory/engine.py"),
        "sync/state/__init__.py": header.format("src/stateward/state/__init__.py"),
        "sync/state/threads.py": header.format("src/stateward/state/threads.py"),
    }
    # The unused asyncio has gone, and the imports are sorted by their new names.
    assert texts["sync/state/threads.py"].partition("\n")[2] == dedent('''
        from stateward.errors import StatewardError
        from stateward.state.plain import fold
        from stateward.sync.engines.memory import MemoryEngine


        class Thread:
            """A conversation."""

            def load(self, engine: MemoryEngine) -> int:
                try:
                    return fold(engine.execute(1))
                except StatewardError:
                    return 0
        ''')
    assert "from stateward.sync.state.threads import Thread\n" in texts["sync/__init__.py"]


def test_an_import_that_is_still_used_stays(package: Path, run: Callable[..., int]) -> None:
    (package / "state" / "threads.py").write_text("import asyncio\n\nx = asyncio.TimeoutError\n")
    assert run() == 0
    assert "import asyncio\n" in (package / "sync" / "state" / "threads.py").read_text()


def test_a_fresh_twin_has_not_drifted(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    assert run("--check") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "damage",
    [
        lambda package: (package / "state/threads.py").write_text("y = 2\n"),
        lambda package: (package / "sync/state/threads.py").write_text("y = 2\n"),
        lambda package: (package / "sync/state/threads.py").unlink(),
        lambda package: (package / "state/threads.py").unlink(),
        lambda package: (package / "state/users.py").write_text("async def f(): ...\n"),
        lambda package: (package / "sync/state/extra.py").write_text(""),
        lambda package: (package / "sync/state/threads.py").write_bytes(
            (package / "sync/state/threads.py").read_bytes().replace(b"\n", b"\r\n")
        ),
    ],
    ids=["source", "twin", "no twin", "no source", "new source", "stray file", "line ends"],
)
def test_drift_of_any_kind_is_noticed_and_changes_nothing(
    damage: Callable[[Path], object],
    package: Path,
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run()
    damage(package)
    before = async_to_sync.read_twin(package)
    assert run("--check") == 1
    printed = capsys.readouterr().out
    assert "sync/state/" in printed
    assert printed.endswith("run `make sync`\n")
    assert async_to_sync.read_twin(package) == before


def test_a_twin_whose_source_is_gone_is_removed(package: Path, run: Callable[..., int]) -> None:
    run()
    (package / "_public.py").unlink()
    (package / "state" / "threads.py").unlink()
    assert run() == 0
    assert not (package / "sync" / "state" / "threads.py").exists()
    assert "from its table" in (package / "sync" / "__init__.py").read_text()
    assert run("--check") == 0


def test_a_file_written_by_hand_is_never_removed(
    package: Path, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    mine = package / "sync" / "mine.py"
    mine.write_text("x = 1\n")
    assert run() == 1
    assert "mine.py was not generated" in capsys.readouterr().err
    assert mine.read_text() == "x = 1\n"


def test_a_twin_that_would_not_compile_names_its_source(
    package: Path, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (package / "state" / "threads.py").write_text("async def f():\n    await g()  # async only\n")
    assert run() == 1
    assert capsys.readouterr().err.startswith("src/stateward/state/threads.py: ")
    assert not (package / "sync").exists()


def test_two_sources_for_one_twin_are_refused(
    package: Path, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    async_to_sync.FILES["errors.py"] = "sync/state/threads.py"
    assert run() == 1
    assert "writes sync/state/threads.py twice" in capsys.readouterr().err
