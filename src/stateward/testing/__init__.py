"""For users and engine authors: a pytest plugin, faults, and the conformance suite."""
