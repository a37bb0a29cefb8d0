// SPDX-License-Identifier: MIT
// Depthwise convolution in two dimensions over channels last, each channel of x making one of y: lanes lie along
// channels, a work-item takes V neighbouring channels and walks along a row, its kernels and what is under way in
// registers.
// The host defines
//   TYPE, T, V, WORD  element, type to compute in, channels of a work-item, the OpenCL type of V elements in memory
//   LANES, LINES      work-items of a group along channels, and rows that it handles at once
//   ROWS              rows of the result a work-item computes, sharing what they read (the data's gradient: STRIDE_H)
//   TAPS_H TAPS_W, STRIDE_*, DILATION_*, FLIP, BIAS, ACTIVATE(x)    as in conv/depthwise.cl
#include "lib/types.clh"

#include "lib/activations.clh"

#define TAPS (TAPS_H * TAPS_W)
#define REACH_H ((TAPS_H - 1) * DILATION_H + 1)
#define REACH_W ((TAPS_W - 1) * DILATION_W + 1)
#define UNROLLED _Pragma("unroll")

typedef struct {
  int images, channels;
  int from_n, from_h, from_w, to_n, to_h, to_w;
  int in_h, in_w, out_h, out_w, pad_h, pad_w;  // in: sizes of `from`
  int w_o, w_h, w_w, bias_stride;
  int strip;  // columns of the result a work-item computes
} Shape;

typedef union {
  WORD words;
  STORAGE(TYPE) elements[V];
} Vector;

#define ARGUMENTS                                                                                             \
  CONST_GLOBAL(STORAGE(TYPE), from), CONST_GLOBAL(STORAGE(TYPE), weights), CONST_GLOBAL(STORAGE(TYPE), bias), \
      GLOBAL(STORAGE(TYPE), to), const Shape s

// Fills T weight[TAPS_H][TAPS_W][V] with the kernels of the work-item's channels, which the group reads together.
#define READ_WEIGHTS                                                                                \
  __local T tile[LANES * V * TAPS];                                                                 \
  T weight[TAPS_H][TAPS_W][V];                                                                      \
  {                                                                                                 \
    const int first = get_group_id(0) * LANES * V;                                                  \
    for (int i = get_local_id(1) * LANES + get_local_id(0); i < LANES * V * TAPS; i += LANES * LINES) { \
      const int c = i / TAPS, t = i - c * TAPS, tap = FLIP ? TAPS - 1 - t : t;                      \
      if (first + c < s.channels)                                                                   \
        tile[i] = LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), weights),                                 \
                       (first + c) * s.w_o + tap / TAPS_W * s.w_h + tap % TAPS_W * s.w_w);          \
    }                                                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                   \
    UNROLLED for (int t = 0; t < TAPS; t++) UNROLLED for (int c = 0; c < V; c++)                    \
      weight[t / TAPS_W][t % TAPS_W][c] = tile[(get_local_id(0) * V + c) * TAPS + t];               \
  }

#define READ_BIAS                                 \
  T start[V];                                     \
  UNROLLED for (int c = 0; c < V; c++) start[c] = \
      BIAS ? LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), bias), (channel + c) * s.bias_stride) : (T)0;

inline WORD word_at(__global const STORAGE(TYPE) *p, int offset) { return *(__global const WORD *)(p + offset); }

inline void decode(T *values, Vector vector) {
  UNROLLED for (int c = 0; c < V; c++) values[c] = LOAD(TYPE, vector.elements, c);
}

// What lies at column `w` of row `r`, bit `r` of `inside` telling whether it exists; else zero.
inline WORD read_at(__global const STORAGE(TYPE) *from, int r, int w, uint inside, const Shape *s) {
  return w >= 0 && w < s->in_w && (inside >> r & 1) ? word_at(from, r * s->from_h + w * s->from_w) : (WORD)0;
}

// Result `w - FLIGHT + 1` of a row is complete once columns up to that of step w have been added; FLIGHT are under way.
#define FLIGHT ((REACH_W + STRIDE_W - 1) / STRIDE_W)
#define READ_ROWS ((ROWS - 1) * STRIDE_H + REACH_H)

inline void add_columns(T sum[ROWS][FLIGHT][V], T weight[TAPS_H][TAPS_W][V], Vector columns[STRIDE_W][READ_ROWS]) {
  UNROLLED for (int i = 0; i < STRIDE_W; i++) UNROLLED for (int r = 0; r < READ_ROWS; r++) {
    T x[V];
    decode(x, columns[i][r]);
    UNROLLED for (int v = 0; v < ROWS; v++) {
      const int above = r - v * STRIDE_H;
      if (above < 0 || above % DILATION_H || above / DILATION_H >= TAPS_H) continue;
      UNROLLED for (int j = 0; j < FLIGHT; j++) {
        const int left = j * STRIDE_W + i;
        if (left % DILATION_W || left / DILATION_W >= TAPS_W) continue;
        UNROLLED for (int c = 0; c < V; c++)
          sum[v][j][c] = fma(weight[above / DILATION_H][left / DILATION_W][c], x[c], sum[v][j][c]);
      }
    }
  }
}

__kernel __attribute__((reqd_work_group_size(LANES, LINES, 1)))
void conv_depthwise_last(ARGUMENTS) {
  READ_WEIGHTS
  const int channel = get_global_id(0) * V;
  if (channel >= s.channels) return;
  READ_BIAS
  const int bands = (s.out_h + ROWS - 1) / ROWS, strips = (s.out_w + s.strip - 1) / s.strip;
  for (int id = get_global_id(1); id < s.images * bands * strips; id += get_global_size(1)) {
    const int band = id / strips, n = band / bands, h = (band - n * bands) * ROWS, top = h * STRIDE_H - s.pad_h;
    const int first = (id - band * strips) * s.strip, end = min(first + s.strip, s.out_w);
    __global const STORAGE(TYPE) *from = CONST_POINTER(STORAGE(TYPE), from) + n * s.from_n + channel + top * s.from_h;
    __global STORAGE(TYPE) *to = POINTER(STORAGE(TYPE), to) + n * s.to_n + channel + h * s.to_h;
    uint inside = 0;
    UNROLLED for (int r = 0; r < READ_ROWS; r++) inside |= (uint)(top + r >= 0 && top + r < s.in_h) << r;
    T sum[ROWS][FLIGHT][V];
    UNROLLED for (int v = 0; v < ROWS; v++) UNROLLED for (int j = 0; j < FLIGHT; j++)
      UNROLLED for (int c = 0; c < V; c++) sum[v][j][c] = start[c];
    Vector columns[STRIDE_W][READ_ROWS], next[STRIDE_W][READ_ROWS];
    UNROLLED for (int i = 0; i < STRIDE_W; i++) UNROLLED for (int r = 0; r < READ_ROWS; r++)
      next[i][r].words = read_at(from, r, first * STRIDE_W + i - s.pad_w, inside, &s);
    for (int w = first; w < end + FLIGHT - 1; w++) {
      UNROLLED for (int i = 0; i < STRIDE_W; i++) UNROLLED for (int r = 0; r < READ_ROWS; r++) {
        columns[i][r] = next[i][r];
        next[i][r].words = read_at(from, r, (w + 1) * STRIDE_W + i - s.pad_w, inside, &s);
      }
      add_columns(sum, weight, columns);
      UNROLLED for (int v = 0; v < ROWS; v++) {
        Vector result;
        UNROLLED for (int c = 0; c < V; c++) STORE(TYPE, result.elements, c, ACTIVATE(sum[v][FLIGHT - 1][c]));
        if (w - (FLIGHT - 1) >= first && h + v < s.out_h)
          *(__global WORD *)(to + v * s.to_h + (w - (FLIGHT - 1)) * s.to_w) = result.words;
        UNROLLED for (int j = FLIGHT - 1; j > 0; j--)
          UNROLLED for (int c = 0; c < V; c++) sum[v][j][c] = sum[v][j - 1][c];
        UNROLLED for (int c = 0; c < V; c++) sum[v][0][c] = start[c];
      }
    }
  }
}

// The data's gradient at any stride: `to` is x's gradient, `from` y's. A work-item computes STRIDE_H rows, together
// one row of y's gradient forth; column c of that adds to columns c * STRIDE_W + [0, REACH_W) of these, counted with
// the padding, and completes the first STRIDE_W of them.
#define READ_LINES ((REACH_H + STRIDE_H - 1) / STRIDE_H)
#define OPEN (REACH_W > STRIDE_W ? REACH_W : STRIDE_W)

__kernel __attribute__((reqd_work_group_size(LANES, LINES, 1)))
void conv_depthwise_last_data(ARGUMENTS) {
  READ_WEIGHTS
  const int channel = get_global_id(0) * V;
  if (channel >= s.channels) return;
  READ_BIAS
  const int first_band = s.pad_h / STRIDE_H, bands = (s.out_h - 1 + s.pad_h) / STRIDE_H - first_band + 1;
  const int first_step = s.pad_w / STRIDE_W, steps = (s.out_w - 1 + s.pad_w) / STRIDE_W - first_step + 1;
  const int strips = (steps + s.strip - 1) / s.strip;
  for (int id = get_global_id(1); id < s.images * bands * strips; id += get_global_size(1)) {
    const int line = id / strips, n = line / bands, band = line - n * bands + first_band, h = band * STRIDE_H - s.pad_h;
    const int first = (id - line * strips) * s.strip + first_step, end = min(first + s.strip, first_step + steps);
    const int top = band - (READ_LINES - 1);
    __global const STORAGE(TYPE) *from = CONST_POINTER(STORAGE(TYPE), from) + n * s.from_n + channel + top * s.from_h;
    __global STORAGE(TYPE) *to = POINTER(STORAGE(TYPE), to) + n * s.to_n + channel;
    uint inside = 0;
    UNROLLED for (int r = 0; r < READ_LINES; r++) inside |= (uint)(top + r >= 0 && top + r < s.in_h) << r;
    T sum[STRIDE_H][OPEN][V];
    UNROLLED for (int i = 0; i < STRIDE_H; i++) UNROLLED for (int e = 0; e < OPEN; e++)
      UNROLLED for (int c = 0; c < V; c++) sum[i][e][c] = start[c];
    Vector next[READ_LINES];
    const int before = first - (REACH_W - 1) / STRIDE_W;
    UNROLLED for (int r = 0; r < READ_LINES; r++) next[r].words = read_at(from, r, before, inside, &s);
    for (int step = before; step < end; step++) {
      Vector column[READ_LINES];
      UNROLLED for (int r = 0; r < READ_LINES; r++) {
        column[r] = next[r];
        next[r].words = read_at(from, r, step + 1, inside, &s);
      }
      UNROLLED for (int r = 0; r < READ_LINES; r++) {
        T g[V];
        decode(g, column[r]);
        UNROLLED for (int i = 0; i < STRIDE_H; i++) {
          const int above = (READ_LINES - 1 - r) * STRIDE_H + i;
          if (above % DILATION_H || above / DILATION_H >= TAPS_H) continue;
          UNROLLED for (int t = 0; t < TAPS_W; t++) UNROLLED for (int c = 0; c < V; c++)
            sum[i][t * DILATION_W][c] = fma(weight[above / DILATION_H][t][c], g[c], sum[i][t * DILATION_W][c]);
        }
      }
      UNROLLED for (int i = 0; i < STRIDE_H; i++) {
        UNROLLED for (int e = 0; e < STRIDE_W; e++) {
          Vector result;
          UNROLLED for (int c = 0; c < V; c++) STORE(TYPE, result.elements, c, sum[i][e][c]);
          const int w = step * STRIDE_W + e - s.pad_w;
          if (step >= first && w >= 0 && w < s.out_w && h + i >= 0 && h + i < s.out_h)
            *(__global WORD *)(to + (h + i) * s.to_h + w * s.to_w) = result.words;
        }
        UNROLLED for (int e = 0; e < OPEN; e++) UNROLLED for (int c = 0; c < V; c++)
          sum[i][e][c] = e + STRIDE_W < OPEN ? sum[i][min(e + STRIDE_W, OPEN - 1)][c] : start[c];
      }
    }
  }
}

// Sums of dy * x, `to` times `from`, over the rows of x that a group meets: sums[group, tap, channel]. A work-item
// takes a row of x with the TAPS_H rows of dy that meet it; its window holds the columns of x under the kernel.
__kernel __attribute__((reqd_work_group_size(LANES, LINES, 1)))
void conv_depthwise_last_weights(CONST_GLOBAL(STORAGE(TYPE), from), CONST_GLOBAL(STORAGE(TYPE), to),
                                 GLOBAL(T, sums), const Shape s) {
  __local T partial[TAPS_W][LINES][LANES * V];
  const int channel = get_global_id(0) * V;
  T sum[TAPS_H][TAPS_W][V];
  UNROLLED for (int t = 0; t < TAPS; t++) UNROLLED for (int c = 0; c < V; c++) sum[t / TAPS_W][t % TAPS_W][c] = 0;
  for (int id = get_global_id(1); id < s.images * s.in_h && channel < s.channels; id += get_global_size(1)) {
    const int n = id / s.in_h, row = id - n * s.in_h;
    __global const STORAGE(TYPE) *from = CONST_POINTER(STORAGE(TYPE), from) + n * s.from_n + row * s.from_h + channel;
    __global const STORAGE(TYPE) *to = CONST_POINTER(STORAGE(TYPE), to) + n * s.to_n + channel;
    int lines[TAPS_H];
    uint inside = 0;
    UNROLLED for (int t = 0; t < TAPS_H; t++) {
      const int q = row + s.pad_h - t * DILATION_H, h = q / STRIDE_H;
      const bool meets = q >= 0 && h * STRIDE_H == q && h < s.out_h;
      inside |= (uint)meets << t, lines[t] = meets ? h * s.to_h : 0;
    }
    T window[OPEN][V];
    UNROLLED for (int e = 0; e < OPEN; e++) {
      Vector x;
      x.words = e >= STRIDE_W ? read_at(from, 0, e - STRIDE_W - s.pad_w, 1, &s) : (WORD)0;
      decode(window[e], x);
    }
    Vector next_x[STRIDE_W], next_g[TAPS_H];
#define READ_STEP(w)                                                                             \
  UNROLLED for (int i = 0; i < STRIDE_W; i++)                                                    \
    next_x[i].words = read_at(from, 0, (w) * STRIDE_W + OPEN - STRIDE_W + i - s.pad_w, 1, &s);   \
  UNROLLED for (int t = 0; t < TAPS_H; t++)                                                      \
    next_g[t].words = (w) < s.out_w && (inside >> t & 1) ? word_at(to, lines[t] + (w) * s.to_w) : (WORD)0;
    READ_STEP(0)
    for (int w = 0; w < s.out_w; w++) {
      Vector column[TAPS_H];
      UNROLLED for (int e = 0; e < OPEN - STRIDE_W; e++)
        UNROLLED for (int c = 0; c < V; c++) window[e][c] = window[e + STRIDE_W][c];
      UNROLLED for (int i = 0; i < STRIDE_W; i++) decode(window[OPEN - STRIDE_W + i], next_x[i]);
      UNROLLED for (int t = 0; t < TAPS_H; t++) column[t] = next_g[t];
      READ_STEP(w + 1)
      UNROLLED for (int t = 0; t < TAPS_H; t++) {
        T g[V];
        decode(g, column[t]);
        UNROLLED for (int k = 0; k < TAPS_W; k++) UNROLLED for (int c = 0; c < V; c++)
          sum[t][k][c] = fma(g[c], window[k * DILATION_W][c], sum[t][k][c]);
      }
    }
  }
  UNROLLED for (int t = 0; t < TAPS_H; t++) {
    UNROLLED for (int k = 0; k < TAPS_W; k++) UNROLLED for (int c = 0; c < V; c++)
      partial[k][get_local_id(1)][get_local_id(0) * V + c] = sum[t][k][c];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(1) * LANES + get_local_id(0); i < TAPS_W * LANES * V; i += LANES * LINES) {
      const int k = i / (LANES * V), lane = i - k * LANES * V, c = get_group_id(0) * LANES * V + lane;
      T total = 0;
      for (int line = 0; line < LINES; line++) total += partial[k][line][lane];
      if (c < s.channels) POINTER(T, sums)[(get_group_id(1) * TAPS + t * TAPS_W + k) * s.channels + c] = total;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
