"""`python -m ozaki`: the command line, which `ozaki.cli` contains."""

import sys

if __name__ == "__main__":
    try:
        from ozaki.cli.command import main
    except KeyboardInterrupt:
        sys.exit("ozaki: interrupted; no file was changed")
    sys.exit(main())
