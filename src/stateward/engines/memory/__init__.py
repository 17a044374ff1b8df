"""The memory engine: the executable reference model of the contract."""
