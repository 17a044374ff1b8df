"""Memories that are sound but for one broken promise: what the audit itself is measured with."""
