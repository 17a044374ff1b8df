"""langchain-postgres: one message that PostgreSQL refuses stops every conversation.

The class takes a connection that several histories share. After an error it does not roll back.
"""

import os
import sys
import uuid

import psycopg
from langchain_core.messages import HumanMessage
from langchain_postgres import PostgresChatMessageHistory

connection = psycopg.connect(os.environ["DATABASE_URL"])
PostgresChatMessageHistory.create_tables(connection, "chat_history")


def history_of_a_new_user() -> PostgresChatMessageHistory:
    return PostgresChatMessageHistory("chat_history", str(uuid.uuid4()), sync_connection=connection)


try:
    history_of_a_new_user().add_messages([HumanMessage("pasted text with a NUL: \0")])
except psycopg.Error as error:
    print("the first user's message is refused, as it should be:", type(error).__name__)

print("expected: the second user, who wrote nothing odd, is served")
try:
    second = history_of_a_new_user()
    second.add_messages([HumanMessage("hello")])
    print("found:", [message.content for message in second.messages])
except psycopg.Error as error:
    print(f"found: {type(error).__name__}: {error}")
    sys.exit(1)
