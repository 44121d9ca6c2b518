"""`python -m evalwright` is the `evalwright` command."""

from evalwright.cli import main

if __name__ == "__main__":
    main()
