"""The command line, `python -m ozaki`."""
