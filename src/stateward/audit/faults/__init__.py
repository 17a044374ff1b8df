"""What is done to the store and the processes around it. Each can be undone."""
