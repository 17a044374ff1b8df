"""PostgreSQL: one schema of one database, shared by any number of processes."""
