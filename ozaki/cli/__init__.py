"""The command line, `python -m ozaki`: for those who want to see or use the library without writing Python.

`command` reads the arguments and turns errors into one line and an exit status; `demo`, `info`, `compiling`
and `files` are what it can do; `output` writes the file that `-o` names.
"""
