"""How today's edges differ from those of training, and whether to refit."""
