"""Tests with a key: tables of questions and answers that others publish, and the scorers that read replies."""
