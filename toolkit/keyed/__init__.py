"""Test sets that have a key: reading them, scoring answers by it, and the test that a study names."""
