"""`python -m relatent` is the command line; so is `torchrun … -m relatent`."""

from .serve.cli import main

if __name__ == "__main__":
    main()
