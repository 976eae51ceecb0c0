"""`python -m relatent` is the command line; so is `torchrun … -m relatent`."""

from .cli.main import main

if __name__ == "__main__":
    main()
