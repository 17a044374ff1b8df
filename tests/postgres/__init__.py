"""What is particular to PostgreSQL; the contract itself is in the conformance suite."""
