"""Safeguards that keep an audit from doing harm."""
