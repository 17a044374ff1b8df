"""A lease while it is held: watched over by a block, renewed by a thread of its own."""
