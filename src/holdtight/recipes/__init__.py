"""What the ready-made jobs decide: names, records, flights, terms. Neither blocks nor awaits; see sync/ and aio/."""
