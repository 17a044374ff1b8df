"""What is audited, and which defects are looked for again."""

from __future__ import annotations

from typing import NamedTuple

REDIS, POSTGRES = "redis", "postgres"

# Asked of every target: they hold on any machine. What measures time is left out.
QUESTIONS = {
    "sessions": "a new process finds the conversation",
    "sharing": "other replicas see new messages immediately",
    "races": "no turn is lost if replicas write concurrently",
    "fidelity": "messages come back unchanged",
    "windows": "the newest messages come back, in order",
    "kills": "only whole turns remain after a kill",
}


class Target(NamedTuple):
    """One store of a public system.

    `group`: whose requirements it needs; "" is the house's own. `by_design`: questions that the
    store is not meant for, by its documentation or its API, which `note` explains.
    """

    system: str
    store: str
    group: str
    target: str
    packages: tuple[str, ...]
    server: str | None = None
    note: str = ""
    by_design: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.system}: {self.store}"


MESSAGE = "It stores single messages: a turn of two takes two calls, and others may come between."
SUNSET = "Its package says that it is being sunset."
OF_MESSAGES = ("races", "kills")

LANGCHAIN = ("langchain-community", "langchain-core")
LLAMAINDEX = "llama-index-core"
AGNO = ("agno",)
BURR = ("apache-burr",)
MAF = ("agent-framework-core",)

TARGETS = (
    Target("LangGraph", "AsyncPostgresSaver", "", "langgraph:postgres",
           ("langgraph", "langgraph-checkpoint-postgres"), POSTGRES),
    Target("LangGraph", "AsyncSqliteSaver", "", "langgraph:sqlite",
           ("langgraph", "langgraph-checkpoint-sqlite")),
    Target("OpenAI Agents SDK", "SQLiteSession", "", "openai-agents:sqlite", ("openai-agents",)),
    Target("OpenAI Agents SDK", "RedisSession", "", "openai-agents:redis", ("openai-agents",),
           REDIS),
    Target("Strands Agents", "FileSessionManager", "", "strands:file", ("strands-agents",), None,
           "An agent gets its newest 40 messages, and ids with a slash are refused.",
           ("windows", "fidelity")),
    Target("Google ADK", "DatabaseSessionService", "", "adk:database", ("google-adk",), None,
           "It stores single events: a turn takes two, and others may come between.",
           OF_MESSAGES),
    Target("LangChain", "FileChatMessageHistory", "langchain",
           "langchain_histories:FileHistories", LANGCHAIN, None, SUNSET),
    Target("LangChain", "SQLChatMessageHistory on SQLite", "langchain",
           "langchain_histories:SqlHistories", LANGCHAIN, None, SUNSET),
    Target("LangChain", "RedisChatMessageHistory", "langchain",
           "langchain_histories:RedisHistories", LANGCHAIN, REDIS, SUNSET),
    Target("LangChain", "PostgresChatMessageHistory", "langchain",
           "langchain_histories:PostgresHistories", ("langchain-postgres", "langchain-core"),
           POSTGRES, "Its docstring says that it is designed for prototyping. After a text that "
           "the database refuses, all later calls fail: see above."),
    Target("LlamaIndex", "RedisChatStore", "llamaindex", "llamaindex_stores:RedisStore",
           (LLAMAINDEX, "llama-index-storage-chat-store-redis"), REDIS, MESSAGE, OF_MESSAGES),
    Target("LlamaIndex", "PostgresChatStore", "llamaindex", "llamaindex_stores:PostgresStore",
           (LLAMAINDEX, "llama-index-storage-chat-store-postgres"), POSTGRES, MESSAGE, OF_MESSAGES),
    Target("LlamaIndex", "SQLiteChatStore", "llamaindex", "llamaindex_stores:SqliteStore",
           (LLAMAINDEX, "llama-index-storage-chat-store-sqlite"), None, MESSAGE, OF_MESSAGES),
    Target("Agno", "JsonDb", "agno", "agno_sessions:JsonSessions", AGNO),
    Target("Agno", "SqliteDb", "agno", "agno_sessions:SqliteSessions", AGNO),
    Target("Agno", "PostgresDb", "agno", "agno_sessions:PostgresSessions", AGNO, POSTGRES,
           "A NUL in a text is silently removed."),
    Target("Burr", "SQLitePersister", "burr", "burr_persisters:SqlitePersister", BURR),
    Target("Burr", "RedisBasePersister", "burr", "burr_persisters:RedisPersister", BURR, REDIS),
    Target("Microsoft Agent Framework", "RedisHistoryProvider", "agent-framework",
           "agent_framework_histories:RedisHistories", (*MAF, "agent-framework-redis"), REDIS),
    Target("Microsoft Agent Framework", "FileHistoryProvider", "agent-framework",
           "agent_framework_histories:FileHistories", MAF, None,
           "Experimental; its docstring says that it does not lock across processes."),
    Target("CAMEL", "ChatHistoryBlock on JsonStorage", "camel", "camel_memories:JsonBlocks",
           ("camel-ai",)),
    Target("CAMEL", "ChatHistoryBlock on RedisStorage", "camel", "camel_memories:RedisBlocks",
           ("camel-ai",), REDIS),
    Target("mem0", "SQLiteManager", "mem0", "mem0_messages:Messages", ("mem0ai",), None,
           "Keeps only the newest ten messages of a conversation.",
           ("races", "fidelity", "windows", "kills")),
    Target("Griptape", "RedisConversationMemoryDriver", "griptape",
           "griptape_memories:RedisMemories", ("griptape",), REDIS),
    Target("CrewAI", "SQLiteFlowPersistence", "crewai", "crewai_flows:Flows", ("crewai",)),
    Target("Haystack", "InMemoryChatMessageStore", "haystack", "haystack_store:InMemory",
           ("haystack-ai", "haystack-experimental"), None,
           "Experimental, and in the memory of one process.", tuple(QUESTIONS)),
    Target("Pydantic AI", "SqliteConversationStore", "pydantic-ai",
           "pydantic_ai_conversations:Conversations",
           ("pydantic-ai-harness", "pydantic-ai-slim"), None,
           "If the conversation has changed, a save is refused, and the history is reloaded."),
    Target("Chainlit", "SQLAlchemyDataLayer on PostgreSQL", "chainlit", "chainlit_steps:Steps",
           ("chainlit",), POSTGRES,
           f"{MESSAGE} A text that the database refuses, such as one with a NUL, is silently "
           "dropped: see above.", OF_MESSAGES),
)  # fmt: skip
