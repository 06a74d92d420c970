"""A client's configuration: options, profiles, targets, URLs, credentials. Independent of any store."""
