"""The service as an engine: batches of operations over HTTP."""
