"""The replica processes of an audit, and their control."""
