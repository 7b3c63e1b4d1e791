"""FP32 products from fp16, bf16 and tf32 words.

Algorithm 2.1 and FABsum of Fasi, Higham, Lopez, Mary and Mikaitis, the scaled words of Ootomo and Yokota, the
choice between them, and the checks that make it safe.
"""
