"""`python -m yinyan` is the command line."""

from yinyan.cli import main

main()
