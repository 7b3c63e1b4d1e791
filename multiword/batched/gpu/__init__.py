"""How a batch is computed on a GPU: its place in memory, the kernel chosen for it, the launch.

`storage` says where the matrices lie; `plans` makes of that, and of what was measured
(`choices.json`), the constants of a kernel and its launch; `kernels` has the kernels
(`resident.cu`, `tiled.cu`), `cublas` calls the library; `device` chooses between them, and
`launches` keeps what was launched for calls of the same kind. Its NumPy form, and the definition of
the result, is `multiword.batched.host`.
"""
