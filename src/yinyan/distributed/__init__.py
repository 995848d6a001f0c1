"""Training by several processes, each with a part of the rows."""
