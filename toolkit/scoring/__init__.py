"""From the numbers of judgements and experiments to scores: composite, ensemble, efficiency, one-shot."""
