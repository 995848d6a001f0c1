"""Tables of databases, read and written: the way in and out of other systems."""
