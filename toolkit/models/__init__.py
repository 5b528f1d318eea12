"""Who answers: providers, a local GGUF and scripted models, with their tokens and prices."""
