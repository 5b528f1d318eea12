"""A study asked in rounds, where the next bases depend on the scores so far (RQ2)."""
