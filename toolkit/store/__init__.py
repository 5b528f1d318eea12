"""Documents, connection, embedded server and tidy frames."""
