"""FP64-accurate, correctly rounded and reproducible products and sums from low-precision products."""
