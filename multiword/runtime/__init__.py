"""What both packages stand on: arrays of either kind, CUDA kernels and graphs, memory, the host's cores."""
