"""`stateward audit` and its sub-commands."""
