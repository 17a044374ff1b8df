"""The stores Stateward runs on. Each keeps the contract in `stateward.engine`."""
