"""The replica processes of an audit, and whoever commands them."""
