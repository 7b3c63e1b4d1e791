"""One home for what is exact or rounded once.

`digits`: an exact integer, in digits, becomes floating point. `conversion`: float64 numbers take the
dtype of a result. `error_free`: TwoSum, TwoProduct and Veltkamp's splitting (Ogita, Rump and Oishi).
"""
