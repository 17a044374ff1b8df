"""Whole entities between stores and files: backup, restore, copy, rebalance."""
