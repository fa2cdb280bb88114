"""`python -m mdtensor` is the command `mdtensor`."""

from mdtensor.cli import main

if __name__ == "__main__":
    main()
