"""The blocking colour."""
