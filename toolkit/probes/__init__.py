"""Probes of judges: altered replies and required elements, judged by the judges of a study."""
