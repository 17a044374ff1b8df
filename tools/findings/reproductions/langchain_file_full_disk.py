"""langchain-community: FileChatMessageHistory loses a whole conversation when the disk is full.

It empties the file and writes it anew for each message. A kill at that moment does the same.
"""

import resource
import sys
from pathlib import Path

from langchain_community.chat_message_histories import FileChatMessageHistory
from langchain_core.messages import HumanMessage

history = FileChatMessageHistory("conversation.json")
for number in range(100):
    history.add_message(HumanMessage(f"message {number}"))

size = Path("conversation.json").stat().st_size
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))  # no file may grow: the disk is full
try:
    history.add_message(HumanMessage("one more"))
except OSError as error:
    print("the new message is refused, as it should be:", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))  # there is room again

print("expected: the 100 messages of before")
try:
    found = f"{len(history.messages)} messages"
except ValueError as error:
    found = f"none: {type(error).__name__}: {error}"
print("found:", found)
sys.exit(found != "100 messages")
