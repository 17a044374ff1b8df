"""The stores Holdfast runs on. Each keeps the contract in `holdfast.engine`."""
