"""The answer viewer: find runs, read one with what its judges said, hold two side by side, hand a page to others."""
