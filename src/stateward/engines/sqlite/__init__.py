"""The SQLite engine: the embedded default. One file, several processes."""
