"""How cost grows: many open conversations, many processes, a million messages in one store."""
