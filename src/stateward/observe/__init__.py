"""Numbers, logs and alarms of a store, with their exporters and rules."""
