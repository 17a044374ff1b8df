"""What is done to a target. Each file has the part of the conductor and those of the replicas."""
