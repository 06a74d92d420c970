"""What both colours share of clients and lock objects."""
