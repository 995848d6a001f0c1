"""A model behind HTTP: questions, a live graph with a durable change log, and the explorer's page."""
