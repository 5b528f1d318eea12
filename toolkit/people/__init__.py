"""People beside the judges: rounds of replies to rate, the desk to rate at, ratings read from a file."""
