"""What happens to conversation writes while the store is down: kept, spilled, replayed."""
