/* Hopper's own instructions: barriers of shared memory, and tensor cores that read both operands from there. */
typedef unsigned long long u64;

/* Barriers of shared memory: so many arrivals, and all bytes that are expected, end a phase. */
__device__ __forceinline__ void prepare(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(unsigned barrier, int parity) {
    int done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

/* So many bytes, a multiple of 16, from memory. */
__device__ __forceinline__ void copy_bytes(unsigned to, const void *from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
/* What this thread has written to shared memory, the tensor cores see. */
#define FENCE_SHARED asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

/* Rows of 128 or 32 bytes, whose chunks of 16 are permuted: chunk ^ row % 8, or chunk ^ row / 4 % 2; groups of 8 rows
   lie one after the other. */
template <int BYTES> __device__ __forceinline__ u64 descriptor(unsigned address) {
    return (u64)(address >> 4 & 0x3fff) | 1ull << 16 | (u64)(8 * BYTES / 16) << 32 | (BYTES == 128 ? 1ull : 3ull) << 62;
}

#define WGMMA_FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
/* Wait until no more than so many groups are on their way. */
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")

/* sum += A·Bᵀ of 64 rows of A, N of B and 32 numbers of k, for a warpgroup; the sums of every 8 columns of the result
   are 4 of a thread's. */
template <int N> __device__ __forceinline__ void wgmma(int *sum, u64 left, u64 right);

#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_24 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NAMES_32 NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_48 NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_64 NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_72 NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define NAMES_80 NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define NAMES_88 NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define NAMES_96 NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_104 NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define NAMES_112 NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define NAMES_120 NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define NAMES_128 NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define FROM(i) \
    "+r"(sum[i]), "+r"(sum[i + 1]), "+r"(sum[i + 2]), "+r"(sum[i + 3]), "+r"(sum[i + 4]), "+r"(sum[i + 5]), \
        "+r"(sum[i + 6]), "+r"(sum[i + 7])
#define SUMS_8 FROM(0)
#define SUMS_16 SUMS_8, FROM(8)
#define SUMS_24 SUMS_16, FROM(16)
#define SUMS_32 SUMS_24, FROM(24)
#define SUMS_40 SUMS_32, FROM(32)
#define SUMS_48 SUMS_40, FROM(40)
#define SUMS_56 SUMS_48, FROM(48)
#define SUMS_64 SUMS_56, FROM(56)
#define SUMS_72 SUMS_64, FROM(64)
#define SUMS_80 SUMS_72, FROM(72)
#define SUMS_88 SUMS_80, FROM(80)
#define SUMS_96 SUMS_88, FROM(88)
#define SUMS_104 SUMS_96, FROM(96)
#define SUMS_112 SUMS_104, FROM(104)
#define SUMS_120 SUMS_112, FROM(112)
#define SUMS_128 SUMS_120, FROM(120)
/* Operands are numbered: sums, then A, then B. */
#define DEFINE_WGMMA(columns, sums, after_them) \
    template <> __device__ __forceinline__ void wgmma<columns>(int *sum, u64 left, u64 right) { \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k32.s32.s8.s8 {" NAMES_##sums "}, %" #sums \
                     ", %" #after_them ", 1;" \
                     : SUMS_##sums \
                     : "l"(left), "l"(right)); \
    }
DEFINE_WGMMA(16, 8, 9)
DEFINE_WGMMA(32, 16, 17)
DEFINE_WGMMA(48, 24, 25)
DEFINE_WGMMA(64, 32, 33)
DEFINE_WGMMA(80, 40, 41)
DEFINE_WGMMA(96, 48, 49)
DEFINE_WGMMA(112, 56, 57)
DEFINE_WGMMA(128, 64, 65)
DEFINE_WGMMA(144, 72, 73)
DEFINE_WGMMA(160, 80, 81)
DEFINE_WGMMA(176, 88, 89)
DEFINE_WGMMA(192, 96, 97)
DEFINE_WGMMA(208, 104, 105)
DEFINE_WGMMA(224, 112, 113)
DEFINE_WGMMA(240, 120, 121)
DEFINE_WGMMA(256, 128, 129)
