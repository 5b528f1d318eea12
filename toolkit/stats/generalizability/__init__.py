"""How far a mean score holds beyond these judges, repeats and bases."""
