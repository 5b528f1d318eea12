"""The tests that ship, each a ``PromptResponseTest``."""
