"""Stores that come with agent frameworks. `catalogue` lists them."""
