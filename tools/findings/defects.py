"""Defects that are shown by a reproduction in the vendor's own API."""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    """One file of `reproductions`: it exits with 1 if the defect shows, and is told only then."""

    store: str
    file: str
    group: str
    packages: tuple[str, ...]
    title: str


DEFECTS = (
    Defect("Agno: JsonDb", "agno_json_lost.py", "agno", ("agno",),
           "Processes that share the folder lose each other's sessions, of other users, too"),
    Defect("Burr: RedisBasePersister", "burr_redis_overwrite.py", "burr", ("apache-burr",),
           "Two replicas both save the same sequence id, and one's state is overwritten"),
    Defect("Burr: SQLitePersister", "burr_sqlite_latest.py", "burr", ("apache-burr",),
           "`load` of the last thing written gives an older one of the same second"),
    Defect("CAMEL: ChatHistoryBlock on JsonStorage", "camel_json_torn.py", "camel", ("camel-ai",),
           "A write that is cut short makes the whole history unreadable"),
    Defect("CAMEL: ChatHistoryBlock on RedisStorage", "camel_redis_overwrites.py", "camel",
           ("camel-ai",), "Each write replaces the history: only the last one is remembered"),
    Defect("CAMEL: ChatHistoryBlock on RedisStorage", "camel_redis_silent.py", "camel",
           ("camel-ai",), "While the server is down, writes are accepted and reads are empty"),
    Defect("Chainlit: SQLAlchemyDataLayer on PostgreSQL", "chainlit_silent.py", "chainlit",
           ("chainlit",), "While the database is down, writes are accepted and reads are empty"),
    Defect("CrewAI: SQLiteFlowPersistence", "crewai_lost_turn.py", "crewai", ("crewai",),
           "Of two requests that resume one flow, one's change is lost in silence"),
    Defect("Griptape: RedisConversationMemoryDriver", "griptape_shared_conversation.py",
           "griptape", ("griptape",),
           "Without a `conversation_id`, all users of a process share one conversation"),
    Defect("Griptape: RedisConversationMemoryDriver", "griptape_lost_run.py", "griptape",
           ("griptape",), "Of two replicas that answer at once, one's run is lost in silence"),
    Defect("Haystack: InMemoryChatMessageStore", "haystack_fork_dropped.py", "haystack",
           ("haystack-ai", "haystack-experimental"),
           "After a part of a conversation was copied, new messages are dropped"),
    Defect("LangChain: FileChatMessageHistory", "langchain_file_full_disk.py", "langchain",
           ("langchain-community",), "A write that fails takes the whole conversation with it"),
    Defect("LangChain: PostgresChatMessageHistory", "langchain_postgres_aborted.py", "langchain",
           ("langchain-postgres",),
           "After one refused message, every conversation on the connection fails"),
    Defect("LangChain: RedisChatMessageHistory", "langchain_redis_split.py", "langchain",
           ("langchain-community",),
           "A turn that is added by one call is split by another replica's"),
    Defect("LangGraph: AsyncSqliteSaver", "langgraph_lost_turn.py", "",
           ("langgraph", "langgraph-checkpoint-sqlite"),
           "Of two requests in one thread, one's turn is lost in silence"),
    Defect("LlamaIndex: RedisChatStore", "llamaindex_redis_delete.py", "llamaindex",
           ("llama-index-storage-chat-store-redis",),
           "Deleting one message turns the order of the others round"),
    Defect("mem0: SQLiteManager", "mem0_oldest_kept.py", "mem0", ("mem0ai",),
           "Of a batch, the oldest ten messages are kept instead of the newest"),
    Defect("Microsoft Agent Framework: RedisHistoryProvider", "agent_framework_repeat.py",
           "agent-framework", ("agent-framework-core", "agent-framework-redis"),
           "A turn without ids that is like the one before it is not stored"),
)  # fmt: skip
