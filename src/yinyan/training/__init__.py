"""Training: the loop, its data, checkpoints, defaults, and from a split to a fitted model."""
