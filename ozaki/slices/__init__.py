"""Ozaki scheme I: slices of few bits.

Here they are integers; `ozaki.mukunoki` has the floating-point form of Mukunoki, Ozaki, Ogita and Imamura.
"""
