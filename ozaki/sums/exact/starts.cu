typedef long long i64;
typedef unsigned long long u64;

/* How many of n labels, of which index is the order, are below a group. */
__device__ i64 labels_below(i64 group, const int *labels, const i64 *index, i64 n)
{
    i64 low = 0, high = n;
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (labels[index[middle]] < group) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* starts[g] = where the labels g begin, g <= groups; told = the first and the last of these, and the longest group.
   state : two zeros, the longest group so far, and how many blocks have told theirs. */
extern "C" __global__ void starts_of_groups(const int *labels, const i64 *index, i64 n, i64 groups, i64 *starts,
                                            u64 *state, i64 *told)
{
    __shared__ u64 longest;
    if (threadIdx.x == 0) longest = 0;
    __syncthreads();
    for (i64 g = blockIdx.x * (i64)blockDim.x + threadIdx.x; g < groups; g += gridDim.x * (i64)blockDim.x) {
        const i64 start = labels_below(g, labels, index, n), end = labels_below(g + 1, labels, index, n);
        starts[g] = start;
        if (g == 0) told[0] = start;
        if (g == groups - 1) starts[groups] = told[1] = end;
        atomicMax(&longest, (u64)(end - start));
    }
    __syncthreads();
    if (threadIdx.x) return;
    atomicMax(state, longest);
    __threadfence();
    if (atomicAdd(state + 1, 1ull) == gridDim.x - 1) told[2] = atomicMax(state, 0ull);
}
