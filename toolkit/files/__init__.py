"""Files: written whole or not at all, read with a line for each fault, and all tables in and out."""
