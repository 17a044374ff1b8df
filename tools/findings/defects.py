"""Defects that are shown by a reproduction in the vendor's own API."""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    """One file of `reproductions`: it exits with 1 if the defect shows, and is listed only then."""

    store: str
    file: str
    group: str
    packages: tuple[str, ...]
    title: str


DEFECTS = (
    Defect("Agno: JsonDb", "agno_json_lost.py", "agno", ("agno",),
           "Processes that share the folder lose each other's sessions, even of other users"),
    Defect("Burr: RedisBasePersister", "burr_redis_overwrite.py", "burr", ("apache-burr",),
           "Two replicas both save the same sequence id, and one's state is overwritten"),
    Defect("Burr: SQLitePersister", "burr_sqlite_latest.py", "burr", ("apache-burr",),
           "`load` returns an older state if several were saved within the same second"),
    Defect("CAMEL: ChatHistoryBlock on JsonStorage", "camel_json_torn.py", "camel", ("camel-ai",),
           "An interrupted write makes the whole history unreadable"),
    Defect("CAMEL: ChatHistoryBlock on RedisStorage", "camel_redis_overwrites.py", "camel",
           ("camel-ai",), "Each write replaces the history: only the last one is remembered"),
    Defect("CAMEL: ChatHistoryBlock on RedisStorage", "camel_redis_silent.py", "camel",
           ("camel-ai",), "While the server is down, writes are accepted and reads are empty"),
    Defect("Chainlit: SQLAlchemyDataLayer on PostgreSQL", "chainlit_silent.py", "chainlit",
           ("chainlit",), "While the database is down, writes are accepted and reads are empty"),
    Defect("CrewAI: SQLiteFlowPersistence", "crewai_lost_turn.py", "crewai", ("crewai",),
           "If two requests resume one flow, one of the changes is silently lost"),
    Defect("Griptape: RedisConversationMemoryDriver", "griptape_shared_conversation.py",
           "griptape", ("griptape",),
           "Without a `conversation_id`, all users of a process share one conversation"),
    Defect("Griptape: RedisConversationMemoryDriver", "griptape_lost_run.py", "griptape",
           ("griptape",), "If two replicas answer concurrently, one run is silently lost"),
    Defect("Haystack: InMemoryChatMessageStore", "haystack_fork_dropped.py", "haystack",
           ("haystack-ai", "haystack-experimental"),
           "After part of a conversation was copied, new messages are dropped"),
    Defect("LangChain: FileChatMessageHistory", "langchain_file_full_disk.py", "langchain",
           ("langchain-community",), "A failed write destroys the whole conversation"),
    Defect("LangChain: PostgresChatMessageHistory", "langchain_postgres_aborted.py", "langchain",
           ("langchain-postgres",),
           "After one refused message, every conversation on the connection fails"),
    Defect("LangChain: RedisChatMessageHistory", "langchain_redis_split.py", "langchain",
           ("langchain-community",),
           "A turn that is added with one call is split by another replica's turn"),
    Defect("LangGraph: AsyncSqliteSaver", "langgraph_lost_turn.py", "",
           ("langgraph", "langgraph-checkpoint-sqlite"),
           "If two requests run in one thread, one of the turns is silently lost"),
    Defect("LlamaIndex: RedisChatStore", "llamaindex_redis_delete.py", "llamaindex",
           ("llama-index-storage-chat-store-redis",),
           "Deleting a message reverses the order of the others"),
    Defect("mem0: SQLiteManager", "mem0_oldest_kept.py", "mem0", ("mem0ai",),
           "After a batch, the oldest ten messages are kept instead of the newest"),
    Defect("Microsoft Agent Framework: RedisHistoryProvider", "agent_framework_repeat.py",
           "agent-framework", ("agent-framework-core", "agent-framework-redis"),
           "A turn without ids is not stored if it equals the previous one"),
)  # fmt: skip
