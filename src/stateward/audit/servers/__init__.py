"""Servers that an audit starts for itself."""
