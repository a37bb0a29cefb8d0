// SPDX-License-Identifier: MIT
// Discrete Fourier transforms of LENGTH numbers in registers, exchanged through local memory (Stockham's order, see
// docs/fft.md). LANES work-items share a line, LINES lines a group; ITEMS numbers a work-item.
// Defines: those of lib/fft.clh and lib/fft_lines.clh, and
//   COLUMNS            neighbouring work-items take neighbouring lines
//   STAGED_IN, _OUT    global memory is read (written) along lines although work-items lie otherwise
//   MIXED              1: neighbouring work-items take neighbouring numbers up to the last exchange, then neighbouring
//                      lines; 2: the other way round, from the first exchange on
//   ROW                numbers of local memory from a line to the next where MIXED
//   SPLIT              real and imaginary parts are exchanged one after the other, in half the local memory
//   SCRATCH, PAD       numbers of local memory, with one free after every PAD
//   FIRST, LAST        radix of the first and the last stage; TRANSFORM: all stages
//   LOAD_KIND          0 complex, 1 real, 2 real pairs, 3 half of a Hermitian line, 4 the same, to become real pairs
//   STORE_KIND         0 complex, 1 real, 2 real pairs, 3 the line of twice as many real numbers: half, 4: all of it
//   SWAP_IN, SWAP_OUT  exchange of real and imaginary parts, which makes the transform an inverse one
//   CHIRP_IN, _OUT     Bluestein's factors; CHIRP_BOTH: the whole of his algorithm; SPECTRUM_IN: start of its second half
//   UNIT_IN, UNIT_OUT  elements of a line are neighbours; UNIT_PAIRS: pairs lie as complex numbers do
//   IN_PLACE           results are written where numbers were read
//   LIMITED            not all numbers are written
//   TWIST              factors between the parts of a longer transform; PART: lines are such parts
#include "lib/fft.clh"
#include "lib/fft_lines.clh"

#define SWAPPED(v) ((T)((v).y, (v).x))
#define COUNT(R) ((LENGTH / R + LANES - 1) / LANES)
#define FITS(R, b) ((LENGTH / R) % LANES == 0 || (b) < LENGTH / R)
#ifdef CPU_DEVICE
// Positions of neighbouring work-items, 64 bits wide, do not wrap, and local memory has no banks: what they load lies side
// by side and becomes vectors.
typedef size_t place_t;
#define SLOT(i) (i)
#else
typedef uint place_t;
#define SLOT(i) ((i) + (i) / PAD)
#endif
#if MIXED
#define AT(t, position) ((t) * ROW + SLOT(position))
#else
#define AT(t, position) (COLUMNS ? SLOT((position) * LINES + (t)) : SLOT((t) * LENGTH + (position)))
#endif

// Inputs of butterfly b = lane + c * LANES of radix R: positions b + r * LENGTH / R.
#define EACH_INPUT(R, STATEMENT)                                            \
  UNROLL for (uint c = 0; c < COUNT(R); c++) {                              \
    const place_t b = lane + c * LANES;                                        \
    if (FITS(R, b)) {                                                       \
      UNROLL for (uint r = 0; r < R; r++) {                                 \
        const place_t position = b + r * (LENGTH / R), i = c * R + r;          \
        STATEMENT;                                                          \
      }                                                                     \
    }                                                                       \
  }

// Its outputs, after DONE numbers were combined by earlier stages.
#define EACH_OUTPUT(R, DONE, STATEMENT)                                     \
  UNROLL for (uint c = 0; c < COUNT(R); c++) {                              \
    const place_t b = lane + c * LANES;                                        \
    if (FITS(R, b)) {                                                       \
      UNROLL for (uint r = 0; r < R; r++) {                                 \
        const place_t position = b / (DONE) * ((DONE) * R) + b % (DONE) + r * (DONE), i = c * R + r; \
        STATEMENT;                                                          \
      }                                                                     \
    }                                                                       \
  }

// Powers of the root of unity that belongs to b: those of 2 from the table, the others as products of two. The table has
// those of neighbouring b side by side, the stage's from ROOTS on.
#define LOG2(r) (r >= 16 ? 4 : r >= 8 ? 3 : r >= 4 ? 2 : r >= 2 ? 1 : 0)
#define STAGE(R, DONE, ROOTS)                                                      \
  UNROLL for (uint c = 0; c < COUNT(R); c++) {                              \
    const place_t b = lane + c * LANES;                                        \
    if (FITS(R, b)) {                                                       \
      if (DONE > 1) {                                                       \
        const uint k = ROOTS + b % DONE;                                    \
        T w[R];                                                             \
        UNROLL for (uint r = 1; r < R; r++) {                               \
          const uint high = r >= 16 ? 16 : r >= 8 ? 8 : r >= 4 ? 4 : r >= 2 ? 2 : 1; \
          w[r] = r == high ? roots[LOG2(r) * DONE + k] : c_mul(w[high], w[r - high]); \
          v[c * R + r] = c_mul(v[c * R + r], w[r]);                         \
        }                                                                   \
      }                                                                     \
      dft##R(v + c * R);                                                    \
    }                                                                       \
  }

// Factors between the parts of a longer transform, of the last stage's outputs: few are looked up, as in STAGE.
#define TWIST_STAGE(R)                                                      \
  UNROLL for (uint c = 0; c < COUNT(R); c++) {                              \
    const place_t b = lane + c * LANES;                                        \
    if (FITS(R, b)) {                                                       \
      const uint k = (uint)line.twist * (LENGTH / R);                       \
      T w[R];                                                               \
      w[0] = turn(tables.twists, (uint)line.twist * (uint)b, TWIST_BITS);   \
      v[c * R] = c_mul(v[c * R], w[0]);                                     \
      UNROLL for (uint r = 1; r < R; r++) {                                 \
        const uint high = r >= 16 ? 16 : r >= 8 ? 8 : r >= 4 ? 4 : r >= 2 ? 2 : 1; \
        w[r] = r == high ? turn(tables.twists, r * k, TWIST_BITS) : c_mul(w[high], w[r - high]); \
        v[c * R + r] = c_mul(v[c * R + r], c_mul(w[0], w[r]));              \
      }                                                                     \
    }                                                                       \
  }

#if IN_PLACE
#define SYNC barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#else
#define SYNC barrier(CLK_LOCAL_MEM_FENCE);
#endif
// MOVED exchanges two layouts of the work-items: writes are of the one before, reads of the one after.
#if SPLIT
#define EXCHANGE_MOVED(R, DONE, NEXT, MOVED)                                \
  EACH_OUTPUT(R, DONE, scratch[AT(t, position)] = v[i].x)                   \
  SYNC MOVED EACH_INPUT(NEXT, v[i].x = scratch[AT(t, position)])            \
  SYNC MOVED EACH_OUTPUT(R, DONE, scratch[AT(t, position)] = v[i].y)        \
  SYNC MOVED EACH_INPUT(NEXT, v[i].y = scratch[AT(t, position)])
#define SCRATCH_T real_t
#else
#define EXCHANGE_MOVED(R, DONE, NEXT, MOVED)                                \
  EACH_OUTPUT(R, DONE, scratch[AT(t, position)] = v[i])                     \
  SYNC MOVED EACH_INPUT(NEXT, v[i] = scratch[AT(t, position)])
#define SCRATCH_T T
#endif
#define EXCHANGE(R, DONE, NEXT) EXCHANGE_MOVED(R, DONE, NEXT, )
#define EXCHANGE_MIXED(R, DONE, NEXT) EXCHANGE_MOVED(R, DONE, NEXT, MOVE)
#define MOVE { const place_t t_ = t, lane_ = lane; t = other_t, lane = other_lane, other_t = t_, other_lane = lane_; }

#if LOAD_KIND == 1 || LOAD_KIND == 2
#define IN_T real_t
#else
#define IN_T T
#endif
#if STORE_KIND == 1 || STORE_KIND == 2
#define OUT_T real_t
#else
#define OUT_T T
#endif

typedef struct {
  __global const T *turns, *twists, *chirp, *spectrum;
} fft_tables;

// Half of a Hermitian line: imaginary parts that are zero by symmetry are not read.
inline T bin(__global const T *x, index_t origin, index_t stride, uint j, uint length) {
  const uint other = length - j;
  T v = x[origin + (index_t)min(j, other) * stride];
  if (j > other) v.y = -v.y;
  if (j == 0 || j == other) v.y = 0;
  return v;
}

inline T load(const fft_lines *lines, __global const IN_T *x, fft_line line, place_t position, fft_tables tables) {
#if PART
  const uint j = (uint)line.in_first + position * (uint)lines->in_step;
#else
  const place_t j = position;
#endif
#if CHIRP_IN || CHIRP_BOTH
  if (j >= (uint)lines->inputs) return (T)(0, 0);
#endif
  const index_t stride = UNIT_IN ? 1 : (index_t)lines->in_stride;
#if LOAD_KIND == 0
  T v = x[line.in + (index_t)j * stride];
#elif LOAD_KIND == 1
  T v = (T)(x[line.in + (index_t)j * stride], 0);
#elif LOAD_KIND == 2 && UNIT_PAIRS
  T v = ((__global const T *)(x + line.in))[j];
#elif LOAD_KIND == 2
  T v = (T)(x[line.in + (index_t)(2 * j) * stride], x[line.in + (index_t)(2 * j + 1) * stride]);
#elif LOAD_KIND == 3
  T v = bin(x, line.in, stride, j, (uint)lines->inputs);
#else
  const uint length = 2 * (uint)lines->inputs;
  const T a = bin(x, line.in, stride, j, length), w = turn(tables.turns, j, TURN_BITS);
  T b = bin(x, line.in, stride, length / 2 - j, length);
  b.y = -b.y;
  const T odd = c_mul(a - b, (T)(w.x, -w.y));
  T v = (T)(a.x + b.x - odd.y, a.y + b.y + odd.x);
#endif
#if SWAP_IN
  v = SWAPPED(v);
#endif
#if CHIRP_IN || CHIRP_BOTH
  v = c_mul(v, tables.chirp[j]);
#endif
#if SPECTRUM_IN
  v = c_mul(v, tables.spectrum[j]);
  v = SWAPPED(v);
#endif
  return v;
}

// What is stored of a transform's number at `position`.
inline T finished(const fft_lines *lines, fft_line line, uint position, T v, fft_tables tables) {
#if CHIRP_OUT || CHIRP_BOTH
  const uint k = (uint)line.out_first + position * (PART ? (uint)lines->out_step : 1u);
  v = SWAPPED(v);
  if (k < (uint)lines->inputs) v = c_mul(v, tables.chirp[k]);
#endif
#if SWAP_OUT
  v = SWAPPED(v);
#endif
#if LOAD_KIND == 1 && LENGTH % 2 == 0 && !PART && !CHIRP_OUT && !CHIRP_BOTH
  if (position == LENGTH / 2) v.y = 0;  // of real numbers, where rounding would leave some
#endif
  return v * REAL_OF(real_t, lines->scale);
}

inline void store(const fft_lines *lines, __global OUT_T *y, fft_line line, place_t position, T v) {
#if PART
  const uint k = (uint)line.out_first + position * (uint)lines->out_step;
#else
  const place_t k = position;
#endif
  const index_t stride = UNIT_OUT ? 1 : (index_t)lines->out_stride;
#if LIMITED
  if (k >= (uint)lines->outputs) return;
#endif
#if STORE_KIND == 1
  y[line.out + (index_t)k * stride] = v.x;
#elif STORE_KIND == 2 && UNIT_PAIRS
  ((__global T *)(y + line.out))[k] = v;
#elif STORE_KIND == 2
  y[line.out + (index_t)(2 * k) * stride] = v.x;
  y[line.out + (index_t)(2 * k + 1) * stride] = v.y;
#else
  y[line.out + (index_t)k * stride] = v;
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void fft_pass(const fft_lines lines, GLOBAL(OUT_T, y_data), CONST_GLOBAL(IN_T, x_data), CONST_GLOBAL(T, roots_data),
              CONST_GLOBAL(T, turns_data), CONST_GLOBAL(T, twists_data), CONST_GLOBAL(T, chirp_data),
              CONST_GLOBAL(T, spectrum_data)) {
  __global OUT_T *y = POINTER(OUT_T, y_data);
  __global const IN_T *x = CONST_POINTER(IN_T, x_data);
  __global const T *roots = CONST_POINTER(T, roots_data);
  const fft_tables tables = {CONST_POINTER(T, turns_data), CONST_POINTER(T, twists_data), CONST_POINTER(T, chirp_data),
                             CONST_POINTER(T, spectrum_data)};
#if SCRATCH > 0
  __local SCRATCH_T scratch[SCRATCH];
#endif
  const place_t id = get_local_id(0);
#if MIXED
  place_t t = MIXED == 1 ? id / LANES : id % LINES, lane = MIXED == 1 ? id % LANES : id / LINES;
  place_t other_t = MIXED == 1 ? id % LINES : id / LANES, other_lane = MIXED == 1 ? id / LINES : id % LANES;
#else
  const place_t t = LINES == 1 ? 0 : COLUMNS ? id % LINES : id / LANES;
  const place_t lane = LINES == 1 ? id : COLUMNS ? id / LINES : id % LANES;
#endif
  const index_t block = (index_t)get_group_id(0) * LINES, last = (index_t)lines.count - 1;
  fft_line line, other;
  find_line(&line, &lines, min(block + (index_t)t, last));
  T v[ITEMS];
#if STAGED_IN
  for (uint e = id; e < LINES * LENGTH; e += GROUP) {
    const uint row = e / LENGTH, position = e % LENGTH;
    if (block + (index_t)row > last) continue;
    find_line(&other, &lines, block + (index_t)row);
    scratch[AT(row, position)] = load(&lines, x, other, position, tables);
  }
  SYNC EACH_INPUT(FIRST, v[i] = scratch[AT(t, position)])
#else
  if (block + (index_t)t <= last) {
    EACH_INPUT(FIRST, v[i] = load(&lines, x, line, position, tables))
  }
#endif
#if CHIRP_BOTH
  // A loop, so that neither the code nor the registers for roots of unity double.
#pragma unroll 1
  for (uint second = 0; second < 2; second++) {
    if (second) {
      EACH_OUTPUT(LAST, LENGTH / LAST, v[i] = c_mul(v[i], tables.spectrum[position]); v[i] = SWAPPED(v[i]))
      SYNC EXCHANGE(LAST, LENGTH / LAST, FIRST)
    }
    TRANSFORM
  }
#else
  TRANSFORM
#endif
#if MIXED
  find_line(&line, &lines, min(block + (index_t)t, last));
#endif
#if TWIST
  TWIST_STAGE(LAST)
#endif
  EACH_OUTPUT(LAST, LENGTH / LAST, v[i] = finished(&lines, line, position, v[i], tables))
#if STORE_KIND >= 3
  const uint length = (uint)lines.inputs, pairs = length / 2 + 1;
  SYNC EACH_OUTPUT(LAST, LENGTH / LAST, scratch[AT(t, position)] = v[i])
  SYNC for (uint e = id; e < LINES * pairs; e += GROUP) {
#if defined(CPU_DEVICE) && LINES == 1
    const uint row = 0, k = e;
#else
    const uint row = COLUMNS && !STAGED_OUT ? e % LINES : e / pairs, k = COLUMNS && !STAGED_OUT ? e / LINES : e % pairs;
#endif
    if (block + (index_t)row > last) continue;
    const T a = scratch[AT(row, k)], b = scratch[AT(row, k == 0 ? 0 : length - k)];
    find_line(&other, &lines, block + (index_t)row);
    store_untangled(&lines, y, other, k, a, b, tables.turns);
  }
#elif STAGED_OUT
  SYNC EACH_OUTPUT(LAST, LENGTH / LAST, scratch[AT(t, position)] = v[i])
  SYNC for (uint e = id; e < LINES * LENGTH; e += GROUP) {
    const uint row = e / LENGTH, position = e % LENGTH;
    if (block + (index_t)row > last) continue;
    find_line(&other, &lines, block + (index_t)row);
    store(&lines, y, other, position, scratch[AT(row, position)]);
  }
#else
  if (block + (index_t)t <= last) {
    EACH_OUTPUT(LAST, LENGTH / LAST, store(&lines, y, line, position, v[i]))
  }
#endif
}
