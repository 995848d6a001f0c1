"""Compiled kernels, and the only code that knows about them."""
