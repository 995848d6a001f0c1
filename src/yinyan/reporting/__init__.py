"""The report of a model: the explorer's model page, with its data, in one HTML file."""
