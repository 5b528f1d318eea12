"""Power: what a study can tell apart, and how many bases, answers or experiments an effect takes."""
