// Windows of numbers whose channels are last, written out as rows of a matrix: out[row, g, p, c] is the number of window
// `row` at place p, in channel c of group g; 0 beyond the edges. A thread has a channel of a window, at all places.
//
// Printed before this file: TEAM, the threads of a block, and WORD, what is copied at once: a number, or several.

struct WindowShape {
  long long size[3], kernel[3], stride[3], dilation[3], before[3];
  long long channels, groups, sample, line, lengths[3], rows, place, places;
};

extern "C" __global__ void __launch_bounds__(TEAM) write_windows(const WORD* x, WORD* out, WindowShape s) {
  const long long index = blockIdx.x * (long long)TEAM + threadIdx.x;
  if (index >= s.rows * s.channels) return;
  const long long channel = index % s.channels, width = s.channels / s.groups;
  const WORD none = {};
  long long row = index / s.channels, place = s.place, first[3], k[3];
  out += (row * s.channels + channel / width * width) * s.places + channel % width;
  for (int d = 2; d >= 0; d--) {
    first[d] = (row % s.lengths[d] + (d ? 0 : s.line)) * s.stride[d] - s.before[d];
    row /= s.lengths[d];
    k[d] = place % s.kernel[d];
    place /= s.kernel[d];
  }
  x += (s.sample + row) * s.size[0] * s.size[1] * s.size[2] * s.channels + channel;
  for (long long p = 0; p < s.places; p++, out += width) {
    long long from = 0;
    bool there = true;
    for (int d = 0; d < 3; d++) {
      const long long i = first[d] + k[d] * s.dilation[d];
      there = there && 0 <= i && i < s.size[d];
      from = from * s.size[d] + i;
    }
    *out = there ? x[from * s.channels] : none;
    for (int d = 2; d >= 0 && ++k[d] == s.kernel[d]; d--) k[d] = 0;
  }
}
