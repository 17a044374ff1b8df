"""The audit: attack a memory architecture before production does, and answer with evidence."""
