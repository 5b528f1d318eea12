"""The dataset: prompts of three lengths that ask for the same work, loaded and checked."""
