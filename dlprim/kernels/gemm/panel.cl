// SPDX-License-Identifier: MIT
// Core for CPUs: a work-group is one work-item; it packs slices of A (rows along k) and B (panels of NR columns) into
// local memory, which is cache, and multiplies MR x NR pieces in vector registers. The host also defines
//   MB, NB, KB   largest tile and slice        MR, NR  rows and columns held in registers
//   PACKED       1: operands of plain products come packed (gemm_pack_panel): A has a_k 1, B panels [n / NR][k][NR];
//                p->slices is the length of a slice
//   BFLOAT16_DOT where elements of packed operands are pairs of bfloat16 (lib/bfloat16_dot.clh); k counts pairs
// Compilers for CPUs take long, so one program does more than on GPUs: it stores the sums of splits raw, and there is an
// addend where beta is not 0.
#define VEC CONCAT(T, 16)
#define ACTIVATED VEC
#define SPACE __local
#include "gemm/operands.clh"
#include "gemm/panel.clh"
#include "lib/bfloat16_dot.clh"

#define MASK CONCAT(mask_, TT)
#define mask_f32 int16
#define mask_f64 long16
#define LDA (KB + 16)  // off the powers of two that would share cache sets; room for the tail of a vector

#if MODE
// Points of one row of the image that follow each other: `length` of them from number `at` of the range.
typedef struct {
  Place place;
  int at, length;
} Run;

// Cuts points [first, first + count) into runs, also at multiples of `cut`. Returns their number.
inline int find_runs(INDEX first, int count, int cut, __local Run *runs, const Params *p) {
  int number = 0;
  for (int done = 0; done < count; number++) {
    const INDEX q = first + done;
    const int length = min((int)min(p->out_w.size - q % p->out_w.size, (INDEX)(count - done)), cut - done % cut);
    runs[number].place = place_point(q, p);
    runs[number].at = done;
    runs[number].length = length;
    done += length;
  }
  return number;
}

// Taps [first, first + count), by counting up instead of dividing.
inline void find_taps(INDEX first, int count, __local Place *taps, const Params *p) {
#if CHANNEL_INNER
  for (int i = 0; i < count; i++) taps[i] = place_tap(first + i, p);
#else
  INDEX w = first % p->taps_w.size, rest = first / p->taps_w.size, h = rest % p->taps_h.size;
  rest /= p->taps_h.size;
  INDEX d = rest % p->taps_d.size, c = rest / p->taps_d.size;
  for (int i = 0; i < count; i++) {
    Place t;
    t.y = 0;
    t.d = (int)(d * p->tap_step_d), t.h = (int)(h * p->tap_step_h), t.w = (int)(w * p->tap_step_w);
    t.x = c * p->x_c + t.d * p->x_d + t.h * p->x_h + t.w * p->x_w;
    taps[i] = t;
    if (++w < p->taps_w.size) continue;
    w = 0;
    if (++h < p->taps_h.size) continue;
    h = 0;
    if (++d < p->taps_d.size) continue;
    d = 0, c++;
  }
#endif
}

// The elements of a run under one tap; may write up to 15 more. Reads stay within [0, end).
inline void gather(__global const STORAGE(TB) *x, Run run, Place tap, INDEX end, __local T *to, const Params *p) {
  const INDEX step = p->step_w * p->x_w;
  INDEX at = run.place.x + tap.x;
  int w = run.place.w + tap.w;
  to += run.at;
#if CHECK && RANK > 1
  bool row = (uint)(run.place.h + tap.h) < (uint)p->in_h;
#if RANK > 2
  row = row && (uint)(run.place.d + tap.d) < (uint)p->in_d;
#endif
  if (!row) {
    for (int i = 0; i < run.length; i += 16) vstore16((VEC)(0), 0, to + i);
    return;
  }
#endif
  for (int i = 0; i < run.length; i += 16, at += 16 * step, w += 16 * (int)p->step_w, to += 16) {
    const int count = min(16, run.length - i);
    const int last = w + 15 * (int)p->step_w;
    if ((step == 1 || step == 2) && at >= 0 && at + 16 * step <= end) {
      VEC v = LOAD16(TB, x + at);
      if (step == 2) {
        const VEC more = LOAD16(TB, x + at + 16);
        v = (VEC)(v.even, more.even);
      }
#if CHECK
      if (w < 0 || last >= (int)p->in_w) {
        const int16 lane = w + (int)p->step_w * (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        v = select((VEC)(0), v, CONCAT(convert_, MASK)(lane >= 0 && lane < (int)p->in_w));
      }
#endif
      vstore16(v, 0, to);
    } else {
      for (int j = 0; j < count; j++) {
        const int wj = w + j * (int)p->step_w;
        const bool ok = !CHECK || (wj >= 0 && wj < (int)p->in_w);
        to[j] = ok ? LOAD(TB, x, at + j * step) : (T)(0);
      }
    }
  }
}
#endif

// Where a tile's results go: row i, column j at c[i * row + column[j]], or raw sums at raw[i * row + j].
typedef struct {
  __global STORAGE(TC) *c;
  __global T *raw;
  __global const STORAGE(TD) *d;
  __global const STORAGE(TC) *e;
  __local const INDEX *column;
  INDEX row, d_m, d_n;
  T alpha, beta;
} Output;

// Elements at[columns[v]] or, without columns, at[v * step].
#define DEFINE_COLLECT(name, tag)                                                                          \
  inline VEC name(__global const STORAGE(tag) *at, __local const INDEX *columns, INDEX step, int count) {  \
    T each[16] = {0};                                                                                      \
    for (int v = 0; v < count; v++) each[v] = LOAD(tag, at, columns ? columns[v] : v * step);              \
    return vload16(0, each);                                                                               \
  }
DEFINE_COLLECT(collect_addend, TD)
#if RESIDUAL
DEFINE_COLLECT(collect_residual, TC)
#endif

// Finishes and stores `rows` x `count` sums, 16 columns at most, from row i and column j on.
inline void finish(const Output *o, __local const T *sums, int i, int j, int rows, int count) {
  const T alpha = o->alpha, beta = o->beta;
  __local const INDEX *column = o->column + j;
  const bool dense = count == 16 && column[15] - column[0] == 15;
  for (const int end = i + rows; i < end; i++, sums += NB) {
    VEC v = vload16(0, sums);
    if (o->raw) {
      __global T *raw = o->raw + i * o->row + j;
      if (count == 16) vstore16(v, 0, raw);
      else
        NOUNROLL for (int k = 0; k < count; k++) raw[k] = sums[k];
      continue;
    }
    VEC addend = 0;
    if (beta != 0) {
      __global const STORAGE(TD) *d = o->d + i * o->d_m + j * o->d_n;
      addend = o->d_n == 0                  ? (VEC)(LOAD(TD, d, 0))
               : count == 16 && o->d_n == 1 ? LOAD16(TD, d)
                                            : collect_addend(d, 0, o->d_n, count);
    }
#if RESIDUAL
    __global const STORAGE(TC) *e = o->e + i * o->row;
    const VEC residual = dense ? LOAD16(TC, e + column[0]) : collect_residual(e, column, 0, count);
#endif
    __global STORAGE(TC) *c = o->c + i * o->row;
    v = FINISH(v, addend);
    if (dense) {
      vstore16(ENCODE16(TC, v), 0, c + column[0]);
      continue;
    }
    STORAGE(TC) each[16];
    vstore16(ENCODE16(TC, v), 0, each);
    NOUNROLL for (int k = 0; k < count; k++) c[column[k]] = each[k];
  }
}

#if PACKED
// Finishes and stores a tile whose columns lie one after the other in C: 16 rows of a column at once.
inline void finish_columns(const Output *o, __local const T *sums, int rows, int columns) {
  const T alpha = o->alpha, beta = o->beta;
  for (int j = 0; j < columns; j += 16)
    for (int i = 0; i < rows; i += 16) {
      const int count = min(16, rows - i), last = min(16, columns - j);
      VEC v[16];
      NOUNROLL for (int r = 0; r < 16; r++) v[r] = vload16(0, sums + min(i + r, rows - 1) * NB + j);
      transpose16(v);
      NOUNROLL for (int k = 0; k < last; k++) {
        VEC addend = 0;
        if (beta != 0) {
          __global const STORAGE(TD) *d = o->d + i * o->d_m + (j + k) * o->d_n;
          addend = o->d_m == 0                  ? (VEC)(LOAD(TD, d, 0))
                   : count == 16 && o->d_m == 1 ? LOAD16(TD, d)
                                                : collect_addend(d, 0, o->d_m, count);
        }
        const INDEX at = o->column[j + k] + i;
#if RESIDUAL
        const VEC residual = count == 16 ? LOAD16(TC, o->e + at) : collect_residual(o->e + at, 0, 1, count);
#endif
        STORAGE(TC) each[16];
        if (count == 16) vstore16(ENCODE16(TC, FINISH(v[k], addend)), 0, o->c + at);
        else {
          vstore16(ENCODE16(TC, FINISH(v[k], addend)), 0, each);
          for (int r = 0; r < count; r++) o->c[at + r] = each[r];
        }
      }
    }
}

#define OPERAND __global const T
#define PITCH p->a_m
#define PANEL p->k
#define ROW(i) (min(i, last) * p->a_m)  // reads nothing below the last row
#include "lib/prefetch.clh"
#else
#define OPERAND __local const T
#define PITCH LDA
#define PANEL KB
#define ROW(i) ((i) * LDA)
#define PREFETCH(at)
#endif

// c (+)= a b for MR rows, of which `last` is the last one in A, and 16 * WIDTH columns over k. A slice has sums of its
// own: those of all of k in one would round each product to their size. On the way brings a 16th of a panel, at `next`,
// into the cache.
#define DEFINE_MULTIPLY(name, WIDTH)                                                                            \
  inline void name(OPERAND *a, int last, OPERAND *b, OPERAND *next, int k, __local T *c, bool first,            \
                   const Params *p) {                                                                           \
    OPERAND *row[MR];                                                                                           \
    _Pragma("unroll") for (int i = 0; i < MR; i++) row[i] = a + ROW(i);                                         \
    VEC acc[MR][WIDTH];                                                                                         \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                              \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = (VEC)(0);                                   \
    for (int l = 0; l < k; l++) {                                                                               \
      PREFETCH(next + l * (NR / 16));                                                                           \
      VEC bv[WIDTH];                                                                                            \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(l * (NR / 16) + j, b);                  \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                          \
        const VEC av = (VEC)(row[i][l]);                                                                        \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = ADD_PRODUCTS(acc[i][j], av, bv[j]);       \
      }                                                                                                         \
    }                                                                                                           \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                              \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++)                                                         \
        vstore16(first ? acc[i][j] : acc[i][j] + vload16(j, c + i * NB), j, c + i * NB);                        \
  }
DEFINE_MULTIPLY(multiply, (NR / 16))
#if NR > 16
DEFINE_MULTIPLY(multiply_narrow, 1)  // for what is left of a row
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_panel(GEMM_ARGUMENTS) {
  const Params *p = &params;
#if !PACKED
  __local T As[MB * LDA] __attribute__((aligned(64)));
  __local T Bs[NB * KB + 16] __attribute__((aligned(64)));
#endif
  __local T Cs[MB * NB] __attribute__((aligned(64)));
  __local INDEX column[NB];
#if MODE
  __local Place taps[MODE == 1 ? KB : NB];
  __local Run runs[MODE == 1 ? NB : KB];
#endif
#if MODE == 2
  __local T turned[16 * LDA] __attribute__((aligned(64)));
#endif
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX m0 = tile.m * p->tile_m, n0 = tile.n * p->tile_n;
  const int rows = (int)min(p->tile_m, p->m - m0), columns = (int)min(p->tile_n, p->n - n0);
  const INDEX k_begin = tile.split * p->k_split, k_end = min(p->k, k_begin + p->k_split);
  __global const STORAGE(TA) *A = CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
  __global const STORAGE(TB) *B = CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;
#if MODE == 1
  const INDEX end = p->x_size - tile.batch * p->b_batch;
  const int number = find_runs(n0, columns, NR, runs, p);
#elif MODE == 2
  const INDEX end = p->x_size - tile.batch * p->b_batch;
  find_taps(n0, columns, taps, p);
#endif

  const INDEX start = tile.batch * p->c_batch + m0 * p->c_m;
  Output output;
  output.column = column;
  output.alpha = alpha, output.beta = beta;
  output.c = POINTER(STORAGE(TC), c) + start;
  output.row = p->splits > 1 ? p->n : p->c_m;
  output.raw = p->splits > 1 ? POINTER(T, c) + ((tile.batch * p->splits + tile.split) * p->m + m0) * p->n + n0 : 0;
  output.d = CONST_POINTER(STORAGE(TD), d) + tile.batch * p->d_batch + m0 * p->d_m + n0 * p->d_n;
  output.d_m = p->d_m, output.d_n = p->d_n;
#if RESIDUAL
  output.e = CONST_POINTER(STORAGE(TC), e) + start;
#endif
#if MODE == 1
  for (int r = 0; r < number; r++)
    for (int v = 0; v < runs[r].length; v++) column[runs[r].at + v] = runs[r].place.y + v * p->y_w;
#else
  for (int j = 0; j < columns; j++) column[j] = (n0 + j) * p->c_n;
#endif

#if PACKED
  const INDEX slice = p->slices;
  const bool in_columns = output.row == 1 && !output.raw;
#else
  const INDEX slice = KB;
  const bool in_columns = false;
#endif
  for (INDEX k0 = k_begin; k0 < k_end; k0 += slice) {
    const int depth = (int)min(slice, k_end - k0);
    // A: row i at As + i * LDA. B: panel j at Bs + j * KB * NR, in it NR columns of each k.
#if PACKED
    __global const T *As = A + m0 * p->a_m + k0, *Bs = B + n0 * p->k + k0 * NR;
#elif MODE == 0
    for (int j = -NR; j < columns; j += NR) {  // A, then the panels: the compiler sees one call
      const bool b = j >= 0;
      pack(b ? B + (n0 + j) * p->b_n + k0 * p->b_k : A + m0 * p->a_m + k0 * p->a_k, b ? p->b_k : p->a_m,
           b ? p->b_n : p->a_k, 0, b ? depth : rows, b ? min(NR, columns - j) : depth, b ? Bs + j * KB : As,
           b ? NR : LDA);
    }
#elif MODE == 1
    pack(A + m0 * p->a_m + k0 * p->a_k, p->a_m, p->a_k, 0, rows, depth, As, LDA);
    find_taps(k0, depth, taps, p);
    for (int j = 0; j < columns; j += NR) {
      __local T *panel = Bs + j * KB;
      const int width = min(NR, columns - j);
      int from = 0;
      while (runs[from].at < j) from++;
      for (int k = 0; k < depth; k++) {
        const Place tap = taps[k];
        for (int r = from; r < number && runs[r].at < j + width; r++) {
          gather(B, runs[r], tap, end, panel + k * NR - j, p);
        }
      }
    }
#else
    const int number = find_runs(k0, depth, KB, runs, p);
    for (int i = 0; i < rows; i++)
      for (int r = 0; r < number; r++) {
        const INDEX at = (m0 + i) * p->a_m + runs[r].place.y;
        copy_line(A + at, p->y_w, 0, p->y_size - tile.batch * p->a_batch - at, runs[r].length,
                  As + i * LDA + runs[r].at);
      }
    for (int j = 0; j < columns; j += 16) {
      const int some = min(16, columns - j);
      for (int i = 0; i < some; i++)
        for (int r = 0; r < number; r++) gather(B, runs[r], taps[j + i], end, turned + i * LDA, p);
      for (int k = 0; k < depth; k += 16) {
        VEC v[16];
#pragma unroll
        for (int i = 0; i < 16; i++) v[i] = vload16(0, turned + i * LDA + k);
        transpose16(v);
#pragma unroll
        for (int i = 0; i < 16; i++) vstore16(v[i], 0, Bs + j / NR * NR * KB + (k + i) * NR + j % NR);
      }
    }
#endif
    for (int j = 0; j < columns; j += NR) {
      const int width = min(NR, columns - j);
      for (int i = 0; i < rows; i += MR) {
        __local T *sums = Cs + i * NB + j;
        OPERAND *a = As + i * PITCH, *b = Bs + j * PANEL, *next = b;
        if (j + NR < columns) next += NR * PANEL + i / MR * (depth * NR / 16);
#if NR > 16
        if (width <= 16) multiply_narrow(a, rows - i - 1, b, next, depth, sums, k0 == k_begin, p);
        else
#endif
          multiply(a, rows - i - 1, b, next, depth, sums, k0 == k_begin, p);
        if (k0 + slice < k_end || in_columns) continue;
        for (int v = 0; v < width; v += 16) finish(&output, sums + v, i, j + v, min(MR, rows - i), min(16, width - v));
      }
    }
  }
#if PACKED
  if (in_columns) finish_columns(&output, Cs, rows, columns);
#endif
}
