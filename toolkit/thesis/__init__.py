"""What the thesis bundle is written from: sentences on statistics, and references."""
