"""Haystack: after the end of a conversation was copied, new messages are dropped.

Ids are counted from the number of messages, so new ones get ids that copied ones have already.
"""

import sys

from haystack.dataclasses import ChatMessage
from haystack_experimental.chat_message_stores.in_memory import InMemoryChatMessageStore

store = InMemoryChatMessageStore(last_k=None)
for number in (1, 2):
    question, answer = f"question {number}", f"answer {number}"
    turn = [ChatMessage.from_user(question), ChatMessage.from_assistant(answer)]
    store.write_messages("first", turn)

store.write_messages("fork", store.retrieve_messages("first", last_k=1))
new = [ChatMessage.from_user("question 3"), ChatMessage.from_assistant("answer 3")]
store.write_messages("fork", new)

found = [message.text for message in store.retrieve_messages("fork")]
print("expected:", ["question 2", "answer 2", "question 3", "answer 3"])
print("found:", found)
sys.exit(len(found) != 4)
