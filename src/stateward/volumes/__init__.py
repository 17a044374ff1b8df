"""A volume for each replica: who has which conversation, and the right to serve it."""
