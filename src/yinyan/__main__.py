"""`python -m yinyan` is the command line."""

from yinyan.cli import main

if __name__ == "__main__":
    main()
