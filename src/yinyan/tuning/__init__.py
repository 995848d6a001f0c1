"""Settings that suit a graph better than the defaults, found on validation edges."""
