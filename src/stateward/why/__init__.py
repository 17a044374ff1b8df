"""Why an agent forgot: what a turn was given, what it was not, and the reason for each."""
