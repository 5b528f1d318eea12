"""What a stranger needs to trust a study: verify, export, import of archives, registration."""
