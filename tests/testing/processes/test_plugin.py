"""The pytest plugin, as a user's own test suite meets it: a real pytest in a folder of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SETTINGS = ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function")
ASYNC = ("-W", "error", "-o", SETTINGS[0], "-o", SETTINGS[1])
WITHOUT_ASYNCIO_PLUGIN = ("-W", "error", "-p", "no:asyncio")


def test_time_passes_when_the_clock_is_told_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from datetime import timedelta

        HELLO = {"role": "user", "content": "hello"}

        async def test_a_thread_expires_after_a_month(stateward_store, stateward_clock):
            thread = stateward_store.thread("s-1", user="u-1")
            await thread.append(HELLO)
            stateward_clock.advance(days=29)
            assert (await thread.load()).messages == [HELLO]
            stateward_clock.advance(days=2)
            assert not (await thread.load()).exists

        async def test_every_append_begins_the_month_anew(stateward_store, stateward_clock):
            thread = stateward_store.thread("s-1")
            for _ in range(3):
                await thread.append(HELLO)
                stateward_clock.advance(days=29, hours=23, minutes=59, seconds=50)
            assert (await thread.load()).version == 3

        async def test_what_a_user_is_known_for_stays(stateward_store, stateward_clock):
            await stateward_store.user("u-1").put({"likes": "tea"})
            stateward_clock.advance(days=10_000)
            assert (await stateward_store.user("u-1").get()).value == {"likes": "tea"}

        async def test_every_test_has_a_store_of_its_own(stateward_store):
            assert not (await stateward_store.thread("s-1").load()).exists
        """
    )
    pytester.runpytest_subprocess(*ASYNC).assert_outcomes(passed=4)


def test_a_store_fails_when_it_is_told_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        import stateward

        HELLO = {"role": "user", "content": "hello"}

        async def test_an_outage_is_no_empty_history(stateward_store):
            thread = stateward_store.thread("s-1")
            await thread.append(HELLO)
            with stateward_store.faults.unavailable() as outage:
                with pytest.raises(stateward.StoreUnavailable):
                    await thread.load()
                with pytest.raises(stateward.StoreUnavailable) as caught:
                    await thread.append(HELLO, expect=1)
                assert caught.value.applied == "no"
                assert (await thread.append(HELLO)).status == "spilled"
                assert not (await stateward_store.health()).ok
            assert outage.fired >= 3
            assert (await thread.load()).messages == [HELLO, HELLO]

        async def test_an_outage_lasts_until_it_is_cleared(stateward_store):
            outage = stateward_store.faults.unavailable()
            with pytest.raises(stateward.StoreUnavailable):
                await stateward_store.user("u-1").get()
            outage.clear()
            assert not (await stateward_store.user("u-1").get()).exists

        async def test_a_store_that_is_too_slow_is_given_up(stateward_store):
            with stateward_store.faults.slow(30):
                with pytest.raises(stateward.StoreUnavailable):
                    await stateward_store.thread("s-1").load()
                with pytest.raises(stateward.StoreUnavailable) as caught:
                    await stateward_store.thread("s-1").append(HELLO, expect=0)
            assert caught.value.applied == "unknown"
            assert (await stateward_store.thread("s-1").load()).messages == [HELLO]

        async def test_a_slow_store_answers_all_the_same(stateward_store):
            with stateward_store.faults.slow(0.01) as slow:
                assert (await stateward_store.thread("s-1").append(HELLO)).version == 1
            assert slow.fired == 1
        """
    )
    pytester.runpytest_subprocess(*ASYNC).assert_outcomes(passed=4)


def test_what_is_written_counts_once_though_its_reply_is_lost(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        import stateward

        HELLO = {"role": "user", "content": "hello"}

        def add_one(value):
            value["n"] = value.get("n", 0) + 1

        async def test_an_append_is_stored_once(stateward_store):
            lost = stateward_store.faults.lose_reply()
            appended = await stateward_store.thread("s-1").append(HELLO)
            assert lost.fired == 1
            assert (appended.status, appended.version) == ("stored", 1)
            assert (await stateward_store.thread("s-1").load()).messages == [HELLO]

        async def test_an_update_counts_once(stateward_store):
            user = stateward_store.user("u-1")
            await user.put({"n": 41})
            lost = stateward_store.faults.lose_reply(times=2)
            assert (await user.update(add_one)).value == {"n": 42}
            assert lost.fired == 2
            assert (await user.get()).value == {"n": 42}

        async def test_a_key_makes_repeating_safe(stateward_store):
            thread = stateward_store.thread("s-1")
            lost = stateward_store.faults.lose_reply(times=1000)
            with pytest.raises(stateward.StoreUnavailable) as caught:
                await thread.append(HELLO, key="turn-1", expect=0)
            assert caught.value.applied == "unknown"
            assert (await thread.append(HELLO, key="turn-1")).status == "spilled"
            lost.clear()
            assert (await thread.append(HELLO, key="turn-1")).status == "duplicate"
            assert (await thread.load()).messages == [HELLO]
        """
    )
    pytester.runpytest_subprocess(*ASYNC).assert_outcomes(passed=3)


def test_blocking_code_has_the_same_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        import stateward

        HELLO = {"role": "user", "content": "hello"}

        def test_a_thread_expires_after_a_month(stateward_sync_store, stateward_clock):
            thread = stateward_sync_store.thread("s-1", user="u-1")
            thread.append(HELLO)
            stateward_clock.advance(days=31)
            assert not thread.load().exists

        def test_an_outage_is_no_empty_history(stateward_sync_store):
            with stateward_sync_store.faults.unavailable() as outage:
                with pytest.raises(stateward.StoreUnavailable):
                    stateward_sync_store.thread("s-1").load()
            assert outage.fired

        def test_an_update_counts_once(stateward_sync_store):
            user = stateward_sync_store.user("u-1")
            lost = stateward_sync_store.faults.lose_reply()
            user.update(lambda value: {"n": value.get("n", 0) + 1})
            assert lost.fired == 1
            assert user.get().value == {"n": 1}
        """
    )
    pytester.runpytest_subprocess(*WITHOUT_ASYNCIO_PLUGIN).assert_outcomes(passed=3)


def test_the_store_works_in_whatever_event_loop_a_test_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio

        from stateward.testing.faults import *  # brings nothing that looks like a test

        def test_one_loop_after_the_other(stateward_store):
            asyncio.run(stateward_store.thread("s-1").append({"role": "user", "content": "hello"}))
            assert asyncio.run(stateward_store.thread("s-1").load()).version == 1
        """
    )
    pytester.runpytest_subprocess(*WITHOUT_ASYNCIO_PLUGIN).assert_outcomes(passed=1)


def test_who_does_not_use_the_plugin_pays_for_no_engine(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_of_a_store_was_imported():
            loaded = [name for name in sys.modules if name.startswith(("stateward.", "apsw"))]
            dear = ("stateward.engines.", "stateward.sync", "stateward.testing.", "apsw")
            assert {n for n in loaded if n.startswith(dear)} == {"stateward.testing.plugin"}
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
