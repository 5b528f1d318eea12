"""The first hour: the demo study, a new study folder, what this machine lacks."""
