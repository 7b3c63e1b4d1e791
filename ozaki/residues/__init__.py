"""Ozaki scheme II: split into residues modulo coprime moduli, multiply, reconstruct by Chinese remainders."""
