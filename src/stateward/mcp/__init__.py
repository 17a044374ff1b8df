"""The MCP server: what a store holds, as tools for a model. See `stateward mcp`."""
