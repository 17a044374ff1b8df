"""Redis and Valkey: one script an entity, one pipeline a batch."""
