"""Workloads of a target. Each file has the part of the conductor and that of the replicas."""
