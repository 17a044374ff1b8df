"""The kinds of state. Each builds operations and reads outcomes; none knows an engine."""
