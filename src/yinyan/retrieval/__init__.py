"""Ways to find the best partners of a node."""
