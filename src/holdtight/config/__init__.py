"""What a client is told: options, profiles, targets, URLs, credentials. Belongs to no store."""
