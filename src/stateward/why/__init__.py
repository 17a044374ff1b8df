"""Explanation of why an agent forgot: the content of a turn's context, and reasons for gaps."""
