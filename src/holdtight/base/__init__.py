"""Values, plans, clocks, fork handling and callbacks: the lowest layer, which all others import."""
