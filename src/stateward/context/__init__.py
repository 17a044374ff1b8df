"""The part of a conversation that goes into a prompt."""
