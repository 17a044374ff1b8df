"""Ways out for what a store counts. Each is optional, and none ever makes an operation wait.

An exporter reads `store.metrics()` on its own thread, from time to time or when it is asked.
"""
