// SPDX-License-Identifier: MIT
// Products with sparse matrices. The host defines T and INDEX (tags), COMPLEX for complex T, VEC (elements of a row that
// a work-item loads at once, 4 or 1), ACROSS and ALONG (work-items beside each other along the columns of the result, and
// along the entries of a row; powers of two), GROUP (work-items) and LONG_ROW (entries from which on the whole group takes
// a row).
#include "lib/types.clh"
#define V VALUE(T)
#define TEAM (ACROSS * ALONG)
#define TEAMS (GROUP / TEAM)

#ifdef COMPLEX
#define MUL(a, b) ((V)((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x))
#define NUMBER(re, im) ((V)((re).x + (re).y, (im).x + (im).y))
#define IS_ZERO(a) ((a).x == 0 && (a).y == 0)
#else
#define MUL(a, b) ((a) * (b))
#define NUMBER(re, im) REAL_OF(V, re)
#define IS_ZERO(a) ((a) == 0)
#endif

typedef struct {
  V at[VEC];
} Sums;

inline Sums nothing(void) {
  Sums s;
  for (int v = 0; v < VEC; v++) s.at[v] = (V)0;
  return s;
}

// VEC elements from `offset` on; only one where they are not neighbors.
inline Sums elements(__global const STORAGE(T) *x, long offset) {
  Sums s;
#if VEC == 4
  const FOUR(T) four = *(__global const FOUR(T) *)(x + offset);
  s.at[0] = DECODE(T, four.x), s.at[1] = DECODE(T, four.y), s.at[2] = DECODE(T, four.z), s.at[3] = DECODE(T, four.w);
#else
  s.at[0] = LOAD(T, x, offset);
#endif
  return s;
}

inline void add_scaled(Sums *sums, V factor, const Sums x) {
  for (int v = 0; v < VEC; v++) sums->at[v] += MUL(factor, x.at[v]);
}

// Folds what `along` rows of `across` work-items hold in `shared`, pairwise; all work-items of the group take part.
inline void fold(__local Sums *shared, int place, int along, int across, int mine) {
  for (int half_way = along / 2; half_way > 0; half_way /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (mine < half_way)
      for (int v = 0; v < VEC; v++) shared[place].at[v] += shared[place + half_way * across].at[v];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

#ifdef PRODUCT
// Entries begin, begin + step ... of a row times the dense matrix's columns at `dense`.
inline Sums row_times(__global const STORAGE(INDEX) *columns, __global const STORAGE(T) *values,
                      __global const STORAGE(T) *dense, __global int *status, int code, long begin, long end, long step,
                      long inner, long dense_row) {
  Sums sums = nothing();
  long e = begin;
#define ENTRY(n)                                                         \
  long column_##n = columns[e + n * step];                               \
  V factor_##n = LOAD(T, values, e + n * step);                          \
  if (column_##n < 0 || column_##n >= inner) {                           \
    REPORT(status, code, column_##n);                                    \
    column_##n = 0;                                                      \
    factor_##n = (V)0;                                                   \
  }
  for (; e + 3 * step < end; e += 4 * step) {
    ENTRY(0) ENTRY(1) ENTRY(2) ENTRY(3)
    const Sums a = elements(dense, column_0 * dense_row), b = elements(dense, column_1 * dense_row);
    const Sums c = elements(dense, column_2 * dense_row), d = elements(dense, column_3 * dense_row);
    add_scaled(&sums, factor_0, a), add_scaled(&sums, factor_1, b);
    add_scaled(&sums, factor_2, c), add_scaled(&sums, factor_3, d);
  }
  for (; e < end; e += step) {
    ENTRY(0)
    add_scaled(&sums, factor_0, elements(dense, column_0 * dense_row));
  }
  return sums;
}

inline void finish(__global STORAGE(T) *out, __global const STORAGE(T) *base, Sums sums, V alpha, V beta, long row,
                   long column, long out_row, long out_column, long base_row, long base_column) {
  for (int v = 0; v < VEC; v++) {
    V value = MUL(alpha, sums.at[v]);
    if (!IS_ZERO(beta)) {
      const V old = LOAD(T, base, row * base_row + (column + v) * base_column);
      value += MUL(beta, old);
    }
    STORE(T, out, row * out_row + (column + v) * out_column, value);
  }
}

// A team of work-items a row; rows of many entries wait and are taken by the whole group, one after the other.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void sparse_product(
    CONST_GLOBAL(STORAGE(INDEX), starts), CONST_GLOBAL(STORAGE(INDEX), columns), CONST_GLOBAL(STORAGE(T), values),
    CONST_GLOBAL(STORAGE(T), dense), CONST_GLOBAL(STORAGE(T), base), GLOBAL(STORAGE(T), out), GLOBAL(int, status),
    int code, long rows, long inner, long width, long entries, long dense_row, long dense_column, long base_row,
    long base_column, long out_row, long out_column, float2 alpha_re, float2 alpha_im, float2 beta_re, float2 beta_im) {
  __local Sums shared[GROUP];
  __local long waiting[TEAMS][2];
  __global const STORAGE(INDEX) *starts = CONST_POINTER(STORAGE(INDEX), starts);
  __global const STORAGE(INDEX) *columns = CONST_POINTER(STORAGE(INDEX), columns);
  __global const STORAGE(T) *values = CONST_POINTER(STORAGE(T), values);
  __global const STORAGE(T) *dense = CONST_POINTER(STORAGE(T), dense);
  __global const STORAGE(T) *base = CONST_POINTER(STORAGE(T), base);
  __global STORAGE(T) *out = POINTER(STORAGE(T), out);
  __global int *status = POINTER(int, status);
  const V alpha = NUMBER(alpha_re, alpha_im), beta = NUMBER(beta_re, beta_im);

  const int local_id = get_local_id(0), team = local_id / TEAM;
  const int across = local_id % ACROSS, along = local_id / ACROSS % ALONG;
  const long first_row = (long)get_group_id(0) * TEAMS, row = first_row + team;
  const long column = ((long)get_group_id(1) * ACROSS + across) * VEC;
  const int inside = column < width;
  dense += inside ? column * dense_column : 0;
  long begin = 0, end = 0;
  if (row < rows) {
    const long start = starts[row], stop = starts[row + 1];
    begin = clamp(start, 0L, entries), end = clamp(stop, begin, entries);
    if (begin != start || end != stop) REPORT(status, code, begin != start ? start : stop);
  }
  if (local_id % TEAM == 0) waiting[team][0] = begin, waiting[team][1] = end - begin >= LONG_ROW ? end : begin;
  const int wait = end - begin >= LONG_ROW;
  Sums sums = nothing();
  if (inside && !wait)
    sums = row_times(columns, values, dense, status, code, begin + along, end, ALONG, inner, dense_row);
#if ALONG > 1
  shared[local_id] = sums;
  fold(shared, local_id, ALONG, ACROSS, along);
  sums = shared[local_id];
#endif
  if (inside && !wait && row < rows && along == 0)
    finish(out, base, sums, alpha, beta, row, column, out_row, out_column, base_row, base_column);

  barrier(CLK_LOCAL_MEM_FENCE);
  const int place = local_id / ACROSS;
  for (int t = 0; t < TEAMS; t++) {
    if (waiting[t][1] == waiting[t][0]) continue;
    sums = nothing();
    if (inside)
      sums = row_times(columns, values, dense, status, code, waiting[t][0] + place, waiting[t][1], GROUP / ACROSS, inner,
                       dense_row);
    shared[local_id] = sums;
    fold(shared, local_id, GROUP / ACROSS, ACROSS, place);
    if (inside && place == 0)
      finish(out, base, shared[local_id], alpha, beta, first_row + t, column, out_row, out_column, base_row, base_column);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#endif

#ifdef SAMPLED
// ALONG work-items an entry, each with VEC neighbors of the left row and the right column at a time.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void sampled_product(
    CONST_GLOBAL(STORAGE(INDEX), rows), CONST_GLOBAL(STORAGE(INDEX), columns), CONST_GLOBAL(STORAGE(T), left),
    CONST_GLOBAL(STORAGE(T), right), CONST_GLOBAL(STORAGE(T), base), GLOBAL(STORAGE(T), out), GLOBAL(int, status),
    int code, long count, long height, long width, long inner, long left_row, long left_column, long right_row,
    long right_column, float2 alpha_re, float2 alpha_im, float2 beta_re, float2 beta_im) {
  __local Sums shared[GROUP];
  __global int *status = POINTER(int, status);
  const int local_id = get_local_id(0), along = local_id % ALONG;
  const long entry = (long)get_group_id(0) * TEAMS + local_id / ALONG;
  Sums sums = nothing();
  if (entry < count) {
    const long row = CONST_POINTER(STORAGE(INDEX), rows)[entry];
    const long column = CONST_POINTER(STORAGE(INDEX), columns)[entry];
    if (row < 0 || row >= height || column < 0 || column >= width) {
      REPORT(status, code, row < 0 || row >= height ? row : column);
    } else {
      __global const STORAGE(T) *left = CONST_POINTER(STORAGE(T), left) + row * left_row;
      __global const STORAGE(T) *right = CONST_POINTER(STORAGE(T), right) + column * right_column;
      for (long i = (long)along * VEC; i < inner; i += ALONG * VEC) {
        const Sums x = elements(left, i * left_column), y = elements(right, i * right_row);
        for (int v = 0; v < VEC; v++) sums.at[v] += MUL(x.at[v], y.at[v]);
      }
    }
  }
  for (int v = 1; v < VEC; v++) sums.at[0] += sums.at[v];
  shared[local_id] = sums;
  fold(shared, local_id, ALONG, 1, along);
  if (entry >= count || along > 0) return;
  const V alpha = NUMBER(alpha_re, alpha_im), beta = NUMBER(beta_re, beta_im);
  V value = MUL(alpha, shared[local_id].at[0]);
  if (!IS_ZERO(beta)) {
    const V old = LOAD(T, CONST_POINTER(STORAGE(T), base), entry);
    value += MUL(beta, old);
  }
  STORE(T, POINTER(STORAGE(T), out), entry, value);
}
#endif
