"""Other projects' own tests, with their functions replaced by this library's: `python -m benchmarks.suites`.

`table` says which tests these are, `differences` which of them fail with this library and why.
"""
