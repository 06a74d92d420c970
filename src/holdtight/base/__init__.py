"""The nouns, plans, time, processes and callbacks that everything else stands on."""
