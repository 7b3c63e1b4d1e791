// Windows of numbers whose channels are last, written out as rows of a matrix: out[row, g, p, c] is the number of window
// `row` at place p, in channel c of group g; 0 beyond the edges. A thread has one place of one channel, or several of
// them in turn where rows are short, of the ROWS windows of its block.
//
// Printed before this file: TEAM, the threads of a block, ROWS, WORD, what is copied at once: a number, or several, and
// PLACE, an integer that counts along a dimension.

struct WindowShape {
  long long size[3], kernel[3], stride[3], dilation[3], before[3];
  long long channels, groups, sample, line, lengths[3], rows, place, places;
};

extern "C" __global__ void __launch_bounds__(TEAM) write_windows(const WORD* x, WORD* out, WindowShape s) {
  __shared__ long long start[ROWS];
  __shared__ PLACE first[3][ROWS];
  const long long items = s.places * s.channels, across = (items + TEAM - 1) / TEAM;
  const long long top = blockIdx.x / across * ROWS, count = s.rows - top < ROWS ? s.rows - top : ROWS;
  for (int r = threadIdx.x; r < count; r += TEAM) {
    long long row = top + r, i[3];
    for (int d = 2; d >= 0; d--) {
      i[d] = (row % s.lengths[d] + (d ? 0 : s.line)) * s.stride[d] - s.before[d];
      row /= s.lengths[d];
      first[d][r] = i[d];
    }
    start[r] = ((((s.sample + row) * s.size[0] + i[0]) * s.size[1] + i[1]) * s.size[2] + i[2]) * s.channels;
  }
  __syncthreads();
  const int lanes = items < TEAM ? items : TEAM, at_once = TEAM / lanes;
  const long long item = blockIdx.x % across * TEAM + threadIdx.x % lanes;
  if (threadIdx.x >= lanes * at_once || item >= items) return;
  const long long width = s.channels / s.groups, channel = item / (s.places * width) * width + item % width;
  long long place = s.place + item / width % s.places;
  PLACE apart[3], size[3];
  for (int d = 2; d >= 0; d--) {
    apart[d] = place % s.kernel[d] * s.dilation[d];
    size[d] = s.size[d];
    place /= s.kernel[d];
  }
  x += ((apart[0] * s.size[1] + apart[1]) * s.size[2] + apart[2]) * s.channels + channel;
  out += (top + threadIdx.x / lanes) * items + item;
  const WORD none = {};
#pragma unroll 4
  for (int r = threadIdx.x / lanes; r < count; r += at_once, out += at_once * items) {
    bool there = true;
    for (int d = 0; d < 3; d++) {
      const PLACE i = first[d][r] + apart[d];
      there = there && 0 <= i && i < size[d];
    }
    *out = there ? x[start[r]] : none;
  }
}
