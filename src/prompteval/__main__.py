"""`python -m prompteval` is the `prompteval` command."""

from prompteval import main

if __name__ == "__main__":
    main()
