"""Every case on every engine, in both colours."""
