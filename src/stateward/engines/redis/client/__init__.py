"""A client for Redis and Valkey: connections, pools, clusters, sentinels. It knows no operation."""
