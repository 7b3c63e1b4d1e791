"""Random calls of the public functions, as commands.

`python -m tests.fuzz.campaign` checks them on the CPU against exact references in Python's integers;
`python -m tests.fuzz.devices` compares a GPU's bits with the CPU's. Both take --minutes, --processes and
--seed, print a table of cases and mismatches, and for each mismatch the command that repeats it. `families`
says which public functions each family calls, and what their results are compared with. `arrays` and `draw`
make the inputs, `rational` is the reference arithmetic, `tally` the loop and the table.
"""
