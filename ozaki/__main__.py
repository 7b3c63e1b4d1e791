"""`python -m ozaki`: the command line, which `ozaki.cli` contains."""

import sys

from ozaki.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
