"""What the calls of a study put together from the rooms of the toolkit."""
