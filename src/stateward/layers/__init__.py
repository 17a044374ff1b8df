"""The layers between the state and an engine. Each has the same `execute(ops)`."""
