"""A graph that changes: embeddings, index and ids that follow it, and the durable log of changes."""
