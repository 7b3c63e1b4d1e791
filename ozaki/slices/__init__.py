"""Ozaki scheme I: slices of few bits.

As integers, and in floating point as in Algorithms 1 to 3 of Mukunoki, Ozaki, Ogita and Imamura.
"""
