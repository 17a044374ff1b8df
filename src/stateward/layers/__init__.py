"""What stands between the state and an engine. Each layer has the same `execute(ops)`."""
