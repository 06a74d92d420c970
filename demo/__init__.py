"""What goes wrong without a distributed lock, and what does not go wrong with one."""
