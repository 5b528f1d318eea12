"""From tidy frames to results that carry their interval, their n and what was missing."""
