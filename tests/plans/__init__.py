"""The core without a socket: every branch of every plan, by feeding replies."""
