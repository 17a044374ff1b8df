"""`stateward bench`: what a user gets on their own store."""
