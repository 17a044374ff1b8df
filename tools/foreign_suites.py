"""Run the frameworks' own tests with Stateward in the place of their stores.

    python tools/foreign_suites.py                       all suites; prints a table
    python tools/foreign_suites.py langgraph-store       one of them
    python tools/foreign_suites.py --own                 each a second time, with the framework's
                                                         own store, to compare
    python tools/foreign_suites.py --write               also writes docs/foreign-suites.md,
                                                         where suites that did not run stay
    python tools/foreign_suites.py --url redis://…       another engine than memory

Downloads the source releases, which contain the tests, and installs what they need into an
environment of its own below --work. Run by hand: it needs the network, and --own needs what the
frameworks' stores need: PostgreSQL, or a Python whose sqlite3 loads extensions.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "foreign-suites.md"


class Suite(NamedTuple):
    """Tests of a source release, and what of them cannot hold for Stateward."""

    name: str
    what: str
    release: str  # as pip names it
    tests: tuple[str, ...]
    select: str  # pytest's -k
    plugin: str  # a module beside this file, which puts Stateward in place
    needs: tuple[str, ...]
    known: dict[str, str]  # pattern of a test's name → why it does not apply


LANGGRAPH = (
    "langgraph==1.2.20",
    "langgraph-checkpoint==4.3.1",
    "langgraph-checkpoint-conformance==0.0.2",
    "langgraph-checkpoint-sqlite==3.1.2",
    "langgraph-checkpoint-postgres",
    "langgraph-cli[inmem]",
    "pytest",
    "pytest-asyncio",
    "pytest-mock",
    "pytest-retry",
    "pytest-timeout",
    "pytest-xdist",
    "syrupy",
    "pycryptodome",
    "httpx",
    "numpy",
    "redis",
    "psycopg[binary,pool]",
)

OPENAI_AGENTS = (
    "openai-agents==0.24.0",
    "inline-snapshot",
    "pytest",
    "pytest-asyncio",
    "pytest-mock",
    "pytest-timeout",
    "aiosqlite",
    "cryptography",
    "httpx",
    "sqlalchemy[asyncio]",
    "websockets",
    "redis",
    "psycopg[binary,pool]",
)
STRANDS = (
    "strands-agents==1.62.0",
    "moto",
    "opentelemetry-processor-baggage",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "redis",
    "psycopg[binary,pool]",
)
CLAUDE_AGENT_SDK = (
    "claude-agent-sdk==0.2.182",
    "anyio[trio]",
    "pytest",
    "pytest-timeout",
    "redis",
    "psycopg[binary,pool]",
)
LANGCHAIN = (
    "langchain-core==1.7.2",
    "langchain-community==0.4.2",
    "aiosqlite",
    "blockbuster",
    "freezegun",
    "sqlalchemy[asyncio]",
    "pytest",
    "pytest-asyncio",
    "pytest-mock",
    "pytest-timeout",
    "syrupy",
    "redis",
    "psycopg[binary,pool]",
)
AGENT_FRAMEWORK = (
    "agent-framework-core==1.23.0",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "redis",
    "psycopg[binary,pool]",
)

CAPABILITY = "asks for a capability that the released conformance suite (0.0.2) does not have"
MIGRATIONS = "looks at the SQL that brings PostgreSQL's tables up to date"
OWN_METHODS = "replaces or watches private methods of PostgreSQL's own class"
INJECTION = "wants a key refused that would break SQL; here any key is data, and finds nothing"
NO_LOOP = "wants blocking calls refused on the event loop; here they are answered"
SWEEPER = "calls the sweeper of SQLite's store; here an item is gone when its time is up, unswept"
CONNECTIONS = "looks at the connections and locks of `sqlite3` that `SQLiteSession` keeps"
STATEMENTS = "makes SQL statements of `SQLiteSession` fail, or the tables in its file"
AUTHENTICATION = (
    "`EncryptedSession` looks at the key within a transaction of SQLite, which it promises for no "
    "other session than `SQLiteSession`"
)
DAMAGE = (
    "makes rows of SQLite's own table unreadable; Stateward raises `SchemaError` for damage, and "
    "skips nothing"
)
AS_GIVEN = (
    "wants items back as they were sent, without what OpenAI adds when it returns them: a status, "
    "and text as a list of parts"
)
FORGETS = "needs a storage that forgets at the end of the process"
NAMESPACES = (
    "`InMemoryStorage` has namespaces of its own; Stateward's storage has those that Strands gives "
    "to any storage, whose search also counts words of the prefix"
)
PATHS = "wants keys that are paths; here a key is any text, and never names a file"
IN_MEMORY = "uses methods or the class name of `InMemoryStorage` that the protocol does not have"
CLOCKS = "sets times in a private dictionary of `InMemorySessionStore`"
TURNS = (
    "counts turns of the event loop in which a store in memory answers; a store is asked on a "
    "thread here, so that trio can wait for it"
)

SUITES = (
    Suite(
        "langgraph-engine",
        "LangGraph's engine, with StatewardSaver for the SQLite savers",
        "langgraph==1.2.20",
        ("tests",),
        "sqlite and not benchmark",
        "foreign_langgraph",
        LANGGRAPH,
        {},
    ),
    Suite(
        "langgraph-saver",
        "checkpoint-sqlite's savers, with StatewardSaver",
        "langgraph-checkpoint-sqlite==3.1.2",
        (
            "tests/test_sqlite.py",
            "tests/test_aiosqlite.py",
            "tests/test_conformance_delta.py",
            "tests/test_delta_channel_migration.py",
            "tests/test_delta_parent_walk.py",
            "tests/test_get_delta_channel_history.py",
        ),
        "",
        "foreign_langgraph",
        LANGGRAPH,
        {
            "test_delta_channel_conformance": CAPABILITY,
            "test_walk_step_looks_up_the_parent_by_primary_key": "reads SQLite's query plans",
            "test_informative_async_errors": "wants async calls refused; here they are answered",
            "test_checkpoint_search_sql_injection_prevention": INJECTION,
        },
    ),
    Suite(
        "langgraph-store",
        "checkpoint-sqlite's store, with StatewardStore",
        "langgraph-checkpoint-sqlite==3.1.2",
        ("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"),
        "",
        "foreign_langgraph",
        LANGGRAPH,
        {
            "test_embed_with_path*": "configures `text_fields`, a name that only SQLite's store "
            "knows; LangGraph's own is `fields`",
            "test_vector_store_initialization": "looks at attributes of SQLite's own class",
            "test_sql_injection_vulnerability*": INJECTION,
            "test_no_running_loop*": NO_LOOP,
            "test_ttl_refresh": SWEEPER,
            "test_ttl_sweeper": SWEEPER,
            "test_ttl_override_default": "SQLite's store prolongs what is read only when asked to; "
            "LangGraph documents it as the default, and so it is here",
        },
    ),
    Suite(
        "langgraph-postgres-saver",
        "checkpoint-postgres' savers, with StatewardSaver",
        "langgraph-checkpoint-postgres==3.2.0",
        (
            "tests/test_sync.py",
            "tests/test_async.py",
            "tests/test_conformance_delta.py",
            "tests/test_delta_pagination.py",
            "tests/test_delta_plain_value_seed.py",
            "tests/test_prune.py::test_prune_conformance",
        ),
        "not shallow",
        "foreign_langgraph",
        LANGGRAPH,
        {
            "test_nonnull_migrations": MIGRATIONS,
            "test_pending_sends_migration*": "makes of checkpoints before version 4 what came "
            "later; Stateward's saver has stored none of those",
            "test_get_checkpoint_no_channel_values*": OWN_METHODS,
            "test_*_walk_reads_nothing_newer_than_the_target": OWN_METHODS,
            "test_delta_channel_conformance": CAPABILITY,
            "test_inline_primitive_seed_is_found": "PostgreSQL's saver cannot distinguish a "
            "stored `None` from nothing; here it is found, as LangGraph's own walk finds it",
        },
    ),
    Suite(
        "langgraph-postgres-store",
        "checkpoint-postgres' store, with StatewardStore",
        "langgraph-checkpoint-postgres==3.2.0",
        ("tests/test_store.py", "tests/test_async_store.py"),
        "",
        "foreign_langgraph",
        LANGGRAPH,
        {
            "test_omit_expired_*": "dates an item back by SQL, and looks at rows that were not "
            "swept; here an item is gone when its time is up",
            "test_no_running_loop*": NO_LOOP,
            "test_abatch_uses_single_pool_checkout": "counts connections of PostgreSQL's own pool",
        },
    ),
    Suite(
        "openai-agents",
        "OpenAI Agents SDK's sessions, encryption, compaction and runner, with StatewardSession",
        "openai-agents==0.24.0",
        (
            "tests/memory",
            "tests/extensions/memory/test_encrypt_session.py",
            "tests/test_agent_runner.py",
            "tests/test_agent_runner_streamed.py",
            "tests/test_max_turns.py",
            "tests/test_native_tool_failure_history.py",
            "tests/test_programmatic_tool_calling.py",
            "tests/test_run_impl_resume_paths.py",
            "tests/test_soft_cancel.py",
            "tests/test_tool_batch_failure_history.py",
            "tests/test_tool_failure_boundaries.py",
        ),
        "",
        "foreign_openai_agents",
        OPENAI_AGENTS,
        {
            "test_sqlite_session_close*_connection*": CONNECTIONS,
            "test_sqlite_session_reaps_connections_*": CONNECTIONS,
            "test_sqlite_session_keeps_connections_*": CONNECTIONS,
            "test_sqlite_session_rollback_failure_evicts_connection": CONNECTIONS,
            "test_sqlite_session_file_lock_*": CONNECTIONS,
            "test_sqlite_session_failed_clear_session_rolls_back": STATEMENTS,
            "test_sqlite_session_failed_pop_item_releases_write_lock": STATEMENTS,
            "test_sqlite_session_post_commit_cancellation_*": CONNECTIONS,
            "test_settled_*_failure_invalidates_response_chain*": CONNECTIONS,
            "test_handoff_resume_after_cancelled_compaction_commits*": STATEMENTS,
            "test_suffix_transaction_*": STATEMENTS,
            "test_cancelled_suffix_*": STATEMENTS,
            "test_failed_encrypted_suffix_*": STATEMENTS,
            "test_encrypted_pop_wrong_key_*": AUTHENTICATION,
            "test_encrypted_pop_rechecks_authentication_*": AUTHENTICATION,
            "test_encrypted_pop_authentication_is_atomic_*": AUTHENTICATION,
            "test_encrypted_pop_cancellation_*": AUTHENTICATION,
            "test_encrypted_session_scan_budget_rejects_negative_limit_*": "wants everything for "
            "the limit -1, as SQLite gives it; here a negative limit is refused",
            "test_sqlite_session_*_corrupt_*": DAMAGE,
            "test_sqlite_session_failed_add_items_releases_write_lock": "wants a `TypeError` for "
            "an item that is not JSON; here it is `InvalidInput`",
            "test_sqlite_session_closed_rejects_empty_add_items": "wants an error for adding "
            "nothing to a closed session; here nothing happens",
        },
    ),
    Suite(
        "openai-conversations",
        "OpenAI Agents SDK's OpenAIConversationsSession, answered by the service",
        "openai-agents==0.24.0",
        (
            "tests/memory/test_openai_conversations_session.py",
            "tests/test_hitl_session_scenario.py::test_openai_conversations_session_hitl_scenario",
        ),
        "",
        "foreign_openai_conversations",
        OPENAI_AGENTS,
        {
            "test_init_with_*": "looks whether the session keeps the test's own client",
            "test_get_items_applies_large_limit_*": "lists what are no items",
            "test_pop_item_with_items": "deletes an item that it has not stored",
            "test_operations_wait_for_complete_append?pop?": AS_GIVEN,
            "test_operations_wait_for_complete_append?read?": AS_GIVEN,
            "test_runner_resume_does_not_replay_partial_repeated_history*lost-ack*": AS_GIVEN,
        },
    ),
    Suite(
        "strands",
        "Strands' repository and session managers, snapshots, storage, agent and context, with "
        "StatewardSessionRepository and StatewardStorage",
        "strands-agents==1.62.0",
        (
            "tests/strands/session/test_repository_session_manager.py",
            "tests/strands/session/test_snapshot_session_manager.py",
            "tests/strands/storage/test_storage.py",
            "tests/strands/storage/test_in_memory_storage.py",
            "tests/strands/agent/test_agent.py",
            "tests/strands/agent/test_agent_storage.py",
            "tests/strands/_context_manager",
        ),
        "",
        "foreign_strands",
        STRANDS,
        {
            "test_save_includes_inline_stash_*": FORGETS,
            "test_save_omits_stash_when_empty": FORGETS,
            "test_immutable_snapshot_includes_stash": FORGETS,
            "test_ephemeral_detection_*": FORGETS,
            "test_false_with_namespaced_in_memory_storage": FORGETS,
            "test_key_normalization": PATHS,
            "test_rejects_path_traversal": PATHS,
            "test_clear": IN_MEMORY,
            "test_namespace_clear_only_clears_prefix": IN_MEMORY,
            "test_namespace_*": NAMESPACES,
            "test_returns_class_name_of_base_storage": IN_MEMORY,
            "test_write_indexes_with_search_strategy": "calls the constructor of `InMemoryStorage`",
            "test_search_delegates_to_strategy": "calls the constructor of `InMemoryStorage`",
        },
    ),
    Suite(
        "claude-agent-sdk",
        "Claude Agent SDK's session stores, mirror, resume, import and summaries, on asyncio and "
        "trio, with StatewardSessionStore",
        "claude-agent-sdk==0.2.182",
        (
            "tests/test_session_store_conformance.py",
            "tests/test_session_store_anyio.py",
            "tests/test_session_helpers_store.py",
            "tests/test_session_import.py",
            "tests/test_session_resume.py",
            "tests/test_session_summary.py",
            "tests/test_transcript_mirror.py",
        ),
        "",
        "foreign_claude_agent_sdk",
        CLAUDE_AGENT_SDK,
        {
            "test_continue_picks_most_recent*": CLOCKS,
            "test_continue_skips_sidechain_sessions*": CLOCKS,
            "test_continue_tie_break_is_deterministic*": CLOCKS,
            "test_load_concurrency_is_bounded*": TURNS,
            "test_gap_fill_bounded_concurrency*": TURNS,
            "test_cancelled_after_mkdtemp_cleans_temp_dir*": TURNS,
            "test_eager_flush_mode_appends_per_frame_before_result": TURNS,
            "test_mixed_sessions_gap_filled*": "wants two sessions distinguished that were written "
            "within one millisecond, while it hides the summary of one",
        },
    ),
    Suite(
        "agent-framework",
        "Agent Framework's contract of checkpoint storages, with StatewardCheckpointStorage",
        "agent-framework-core==1.23.0",
        (
            "tests/workflow/test_checkpoint_storage_conformance.py",
            "tests/workflow/test_checkpoint_isolation_7683.py",
        ),
        "",
        "foreign_agent_framework",
        AGENT_FRAMEWORK,
        {},
    ),
    Suite(
        "langchain-core",
        "LangChain's histories and RunnableWithMessageHistory, with StatewardChatMessageHistory",
        "langchain-core==1.7.2",
        ("tests/unit_tests/chat_history", "tests/unit_tests/runnables/test_history.py"),
        "",
        "foreign_langchain",
        LANGCHAIN,
        {},
    ),
    Suite(
        "langchain-community",
        "langchain-community's SQL and file histories, with StatewardChatMessageHistory",
        "langchain-community==0.4.2",
        (
            "tests/unit_tests/chat_message_histories/test_sql.py",
            "tests/unit_tests/chat_message_histories/test_file_chat_message_history.py",
        ),
        "",
        "foreign_langchain",
        LANGCHAIN,
        {
            "test_model_no_session_id_field_error": "passes the history a custom table without "
            "a column that it needs"
        },
    ),
)


class Result(NamedTuple):
    suite: Suite
    passed: int
    failed: list[str]  # and no reason is known
    excused: dict[str, list[str]]  # reason → tests
    own: dict[str, bool] | None = None  # test → whether it passes with the framework's own store


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="by default all")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "foreign-suites")
    parser.add_argument("--url", default="memory://", help="the store to test with")
    parser.add_argument("--own", action="store_true", help="also with the frameworks' own stores")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    unknown = set(options.suites) - {suite.name for suite in SUITES}
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are: {', '.join(names())}")
    chosen = [suite for suite in SUITES if not options.suites or suite.name in options.suites]
    results = [run(suite, options.work, options.url, own=options.own) for suite in chosen]
    print("\n".join(table(results)))
    if options.write:
        before = PAGE.read_text("utf-8") if PAGE.exists() else ""
        PAGE.write_text(page(results, before), "utf-8")
    return 1 if any(result.failed for result in results) else 0


def names() -> list[str]:
    return [suite.name for suite in SUITES]


def run(suite: Suite, work: Path, url: str, *, own: bool) -> Result:
    """Run with Stateward in place, and if asked with the framework's own store too."""
    report = run_pytest(suite, work, suite.name, url, "-p", suite.plugin)
    result = read(suite, outcomes(report))
    if own:
        result = result._replace(own=outcomes(run_pytest(suite, work, f"{suite.name}-own")))
    return result


def run_pytest(suite: Suite, work: Path, name: str, url: str = "", *plugin: str) -> Path:
    """Install, unpack and run; pytest's report."""
    python = environment(work, suite)
    folder = unpacked(work, suite)
    report = work / f"{name}.xml"
    command = [
        *(python, "-m", "pytest", "-q", "--tb=short", *plugin, "-p", "no:cacheprovider"),
        *("-o", "addopts=", "-o", "asyncio_mode=auto", "--timeout=120", f"--junitxml={report}"),
        *(("-k", suite.select) if suite.select else ()),
        *suite.tests,
    ]
    paths = [str(ROOT / "src"), str(ROOT / "tools"), "."]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "NO_DOCKER": "true",
        "STATEWARD_FOREIGN_URL": url,
    }
    report.unlink(missing_ok=True)
    subprocess.run(command, cwd=folder, env=env, check=False)
    if not report.exists() or not outcomes(report):
        raise SystemExit(f"{name}: no test ran; see above, and whether {folder} is complete")
    return report


def environment(work: Path, suite: Suite) -> str:
    """A Python with what the tests need, made once for each set of needs."""
    place = work / f"venv-{suite.plugin}"
    python = place / "bin" / "python"
    stamp = place / "needs.txt"
    needs = "\n".join((*suite.needs, "msgspec", "apsw"))
    if not stamp.exists() or stamp.read_text() != needs:
        venv.create(place, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *needs.split("\n")], check=True)
        stamp.write_text(needs)
    return str(python)


def unpacked(work: Path, suite: Suite) -> Path:
    """The source release, of which only the tests and their settings are kept."""
    python = environment(work, suite)
    folder = work / suite.name
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory() as download:
        pip = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "-d", download, suite.release], check=True)
        (archive,) = Path(download).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(download, filter="data")
        (source,) = (path for path in Path(download).iterdir() if path.is_dir())
        if not (source / "tests").exists():
            raise SystemExit(
                f"{suite.release} contains no tests; put those of its repository into {folder}"
            )
        half = work / f"{suite.name}.half"  # a copy, if the work lies on another disk: may be cut
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        for name in ("tests", "pyproject.toml"):  # not the package: the installed one is tested
            shutil.move(source / name, half / name)
        half.rename(folder)
    return folder


def read(suite: Suite, outcomes: dict[str, bool]) -> Result:
    passed, failed = 0, []
    excused: dict[str, list[str]] = {}
    for test, ok in outcomes.items():
        name = test.partition("::")[2]
        if ok:
            passed += 1
            continue
        reason = next((why for known, why in suite.known.items() if fnmatch(name, known)), None)
        if reason is None:
            failed.append(name)
        else:
            excused.setdefault(reason, []).append(name)
    return Result(suite, passed, failed, excused)


def outcomes(report: Path) -> dict[str, bool]:
    """Every test that ran, by class and name, once: a teardown may report a second time."""
    seen: dict[str, bool] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        if "skipped" not in kinds:
            key = f"{case.get('classname')}::{case.get('name')}"
            seen[key] = seen.get(key, True) and kinds.isdisjoint({"failure", "error"})
    return seen


HEAD = (
    "| suite | release | passed | failed | do not apply | with its own |",
    "| --- | --- | --- | --- | --- | --- |",
)
NOT_RUN = "not run"
SECTION = "## What does not apply: "


def table(results: list[Result]) -> list[str]:
    failures = [f"\nFAILED {each.suite.name}: {test}" for each in results for test in each.failed]
    return [*HEAD, *map(row, results), *failures]


def row(result: Result, own: str = NOT_RUN) -> str:
    """A line of the table; `own` is what the last column says if only Stateward was tested."""
    suite = result.suite
    counts = (result.passed, len(result.failed), sum(map(len, result.excused.values())))
    own = own_cell(result.own) if result.own else own
    return f"| {' | '.join((suite.what, f'`{suite.release}`', *map(str, counts), own))} |"


def own_cell(outcomes: dict[str, bool]) -> str:
    """Passed/failed with the framework's own store, and which failed."""
    failed = [test.partition("::")[2].partition("[")[0] for test, ok in outcomes.items() if not ok]
    which = ", ".join(f"`{name}`" for name in sorted(set(failed)))
    return f"{len(outcomes) - len(failed)}/{len(failed)}" + (f": {which}" if which else "")


def section(result: Result) -> str:
    """Which tests do not apply, and why; nothing if all do."""
    if not result.excused:
        return ""
    lines = [f"{SECTION}{result.suite.what}", "", "| tests | why |", "| --- | --- |"]
    for reason, tests in sorted(result.excused.items()):
        plain = sorted({test.partition("[")[0] for test in tests})
        lines.append(f"| {', '.join(f'`{name}`' for name in plain)} | {reason} |")
    return "\n".join(lines)


def page(results: list[Result], before: str) -> str:
    """The page anew; suites that did not run keep what it said of them before."""
    rows = {suite.name: line for suite in SUITES if (line := old_row(suite, before))}
    sections = {suite.name: old_section(suite, before) for suite in SUITES}
    for result in results:
        own = rows.get(result.suite.name, NOT_RUN).split(" | ")[-1].removesuffix(" |")
        rows[result.suite.name] = row(result, own)
        sections[result.suite.name] = section(result)
    lines = [
        "# The frameworks' own tests",
        "",
        "An adapter is finished when the tests of its framework pass with it in the place of what",
        "the framework brings. The tests come from the frameworks' source releases;",
        "`python tools/foreign_suites.py --write` downloads them, runs them and writes this page.",
        "They run over `memory://`, unless `--url` names another engine.",
        "",
        "The last column is the same selection with the framework's own store, passed/failed, as",
        "`--own` finds it on the same machine. The numbers add up: what does not apply here passes",
        "there, unless the column names it; then the reason is below.",
        "",
        "The source releases of ADK, Pydantic AI and LlamaIndex contain no tests. The adapters of",
        "the last two are compared with what the framework brings instead: calls that are drawn by",
        "chance have to be answered as its own store answers them. See `tests/frameworks`.",
        "Those of Agent Framework come from its repository, as its release has none either.",
        "",
        *HEAD,
        *(rows[name] for name in names() if name in rows),
        *(f"\n{sections[name]}" for name in names() if sections[name]),
    ]
    return "\n".join(lines) + "\n"


def old_row(suite: Suite, before: str) -> str:
    lines = before.splitlines()
    return next((line for line in lines if line.startswith(f"| {suite.what} | ")), "")


def old_section(suite: Suite, before: str) -> str:
    parts = (SECTION + part.strip() for part in before.split(SECTION)[1:])
    return next((part for part in parts if part.startswith(f"{SECTION}{suite.what}\n")), "")


if __name__ == "__main__":
    sys.exit(main())
