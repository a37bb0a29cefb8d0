// SPDX-License-Identifier: MIT
// Softmax, its logarithm, their gradients. Defines: X_TAG, Y_TAG, G_TAG (tags), REAL, LOG, LANES, ROWS, ITEMS, COLUMNS,
// BATCH (elements a work-item has in flight where rows are read again; 1 on CPUs), PACK (elements it loads at once), SHIFTED
// (rows begin anywhere between packs: positions count from the pack that a row begins in), SAFE (rows of -infinity become
// 0).
#include "lib/packs.clh"
#include "lib/rows.clh"

typedef struct {
  ulong rows, length, inner;
} softmax_shape;

#define BEGIN_ROWS                                                                             \
  __local REAL scratch[GROUP];                                                                 \
  const uint row = ROW_OF(get_local_id(0)), lane = LANE_OF(get_local_id(0));                   \
  const IDX rows = (IDX)shape.rows, length = (IDX)shape.length;                                \
  const IDX inner = COLUMNS ? (IDX)shape.inner : 1;                                            \
  const IDX wanted = (IDX)get_group_id(0) * ROWS + row, o = min(wanted, rows - 1);             \
  const bool valid = wanted < rows;                                                            \
  const IDX start = COLUMNS ? o / inner * inner * length + o % inner : o * length;             \
  const IDX before = SHIFTED ? start % PACK : 0, base = start - before, end = length + before;

#define EACH_ITEM(i, r) for (uint i = 0, r = lane * PACK; i < ITEMS; i += PACK, r += LANES * PACK)
#define EACH_OF_PACK(k) for (uint k = 0; k < PACK; k++)
// Whether a row has its position r; whether it has all of the pack from there on, and any of it.
#define HAS(r) ((r) < end && (!SHIFTED || (r) >= before))
#define HAS_ALL(r) (SHIFTED ? (r) >= before && (r) + PACK <= end : (r) < end)
#define HAS_ANY(r) ((r) < end)
// Elements of a row from r on, `beyond` for those that it does not have; and back.
#define LOAD_ROW(tag, p, r, values, beyond)                                             \
  do {                                                                                  \
    EACH_OF_PACK(k_)(values)[k_] = (beyond);                                            \
    if (HAS_ALL(r)) LOAD_PACK(tag, p, AT(r), values);                                   \
    else if (SHIFTED) {                                                                 \
      EACH_OF_PACK(k_) if (HAS((r) + k_)) (values)[k_] = LOAD(tag, p, AT(r) + k_);      \
    }                                                                                   \
  } while (0)
#define STORE_ROW(tag, p, r, values)                                                    \
  do {                                                                                  \
    if (HAS_ALL(r)) STORE_PACK(tag, p, AT(r), values);                                  \
    else if (SHIFTED) {                                                                 \
      EACH_OF_PACK(k_) if (HAS((r) + k_)) STORE(tag, p, AT(r) + k_, (values)[k_]);      \
    }                                                                                   \
  } while (0)
// Rows that do not fit, a batch at a time. GPUs read them again from their end, the part that caches still hold.
#define BATCHES ((end - 1) / (BATCH * LANES) + 1)
#define EACH_BATCH for (IDX batch = 0; batch < BATCHES; batch++)
// GPUs add constants to the address of the row, which saves them half of the registers.
#if BATCH == 1
#define EACH_BATCH_AGAIN EACH_BATCH
#define MOVED 0
#define AT(r) (base + (r) * inner)
#else
#define EACH_BATCH_AGAIN for (IDX batch = BATCHES; batch-- > 0;)
#define MOVED base
#define AT(r) ((r) * inner)
#endif
#define EACH_HELD(i, r) \
  _Pragma("unroll") for (IDX i = 0, r = batch * (BATCH * LANES) + lane * PACK; i < BATCH; i += PACK, r += LANES * PACK)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void softmax_forward(const softmax_shape shape, GLOBAL(STORAGE(Y_TAG), y_data), CONST_GLOBAL(STORAGE(X_TAG), x_data)) {
  BEGIN_ROWS
  __global STORAGE(Y_TAG) *y = POINTER(STORAGE(Y_TAG), y_data) + MOVED;
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data) + MOVED;
  REAL largest = -INFINITY, sum = 0;
#if ITEMS > 0
  REAL v[ITEMS];
#pragma unroll
  EACH_ITEM(i, r) {
    LOAD_ROW(X_TAG, x, r, v + i, -(REAL)INFINITY);
    EACH_OF_PACK(k) largest = v[i + k] > largest || v[i + k] != v[i + k] ? v[i + k] : largest;
  }
  ALL_LANES(REAL, LARGER, scratch, largest, lane, row);
#if SAFE
  if (largest == -INFINITY) largest = 0;  // so that the sum is 0, or NaN with a NaN
#endif
#pragma unroll
  EACH_ITEM(i, r) EACH_OF_PACK(k) {
    const REAL e = exp(v[i + k] - largest);
    sum += HAS(r + k) ? e : 0;
#if LOG
    v[i + k] -= largest;
#else
    v[i + k] = e;
#endif
  }
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  if (!valid) return;
  const REAL norm = LOG ? log(sum) : sum;
#pragma unroll
  EACH_ITEM(i, r) if (HAS_ANY(r)) {
    EACH_OF_PACK(k) v[i + k] = LOG ? v[i + k] - norm : SAFE && norm == 0 ? 0 : v[i + k] / norm;
    STORE_ROW(Y_TAG, y, r, v + i);
  }
#else
  EACH_BATCH {
    REAL v[BATCH], high = largest;
    EACH_HELD(i, r) {
      LOAD_ROW(X_TAG, x, r, v + i, -(REAL)INFINITY);
      EACH_OF_PACK(k) high = v[i + k] > high ? v[i + k] : high;
    }
#if BATCH == 1  // an exponential does for both
    const REAL e = v[0] == largest ? 1 : exp(-fabs(v[0] - largest));
    sum = high > largest ? sum * e + 1 : sum + e;
#else
    const REAL origin = high == -INFINITY ? 0 : high;
    sum *= high == largest ? 1 : exp(largest - high);
    EACH_HELD(i, r) EACH_OF_PACK(k) sum += exp(v[i + k] - origin);
#endif
    largest = high;
  }
  const REAL own = largest;
  ALL_LANES(REAL, LARGER, scratch, largest, lane, row);
  sum *= own == largest ? 1 : exp(own - largest);
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  if (!valid) return;
  if (largest == INFINITY) sum = NAN;  // infinity - infinity
  const REAL norm = LOG ? log(sum) : sum;
  const bool empty = SAFE && largest == -INFINITY && sum == sum;
  EACH_BATCH_AGAIN {
    REAL v[BATCH];
    EACH_HELD(i, r) LOAD_ROW(X_TAG, x, r, v + i, 0);
    EACH_HELD(i, r) if (HAS_ANY(r)) {
      EACH_OF_PACK(k) {
        v[i + k] -= largest;
        v[i + k] = LOG ? v[i + k] - norm : empty ? 0 : exp(v[i + k]) / norm;
      }
      STORE_ROW(Y_TAG, y, r, v + i);
    }
  }
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void softmax_backward(const softmax_shape shape, GLOBAL(STORAGE(X_TAG), gx_data), CONST_GLOBAL(STORAGE(G_TAG), gy_data),
              CONST_GLOBAL(STORAGE(Y_TAG), y_data)) {
  BEGIN_ROWS
  __global STORAGE(X_TAG) *gx = POINTER(STORAGE(X_TAG), gx_data) + MOVED;
  __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data) + MOVED;
  __global const STORAGE(Y_TAG) *y = CONST_POINTER(STORAGE(Y_TAG), y_data) + MOVED;
  REAL sum = 0;
#if ITEMS > 0
  REAL g[ITEMS], v[ITEMS];
#pragma unroll
  EACH_ITEM(i, r) {
    LOAD_ROW(G_TAG, gy, r, g + i, 0);
    LOAD_ROW(Y_TAG, y, r, v + i, 0);
    EACH_OF_PACK(k) sum += LOG ? g[i + k] : g[i + k] * v[i + k];
  }
#else
  EACH_BATCH {
    REAL g[BATCH], v[BATCH];
    EACH_HELD(i, r) {
      LOAD_ROW(G_TAG, gy, r, g + i, 0);
      if (!LOG) LOAD_ROW(Y_TAG, y, r, v + i, 0);
    }
    EACH_HELD(i, r) EACH_OF_PACK(k) sum += LOG ? g[i + k] : g[i + k] * v[i + k];
  }
#endif
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  if (!valid) return;
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r) if (HAS_ANY(r)) {
    EACH_OF_PACK(k) g[i + k] = LOG ? g[i + k] - exp(v[i + k]) * sum : (g[i + k] - sum) * v[i + k];
    STORE_ROW(X_TAG, gx, r, g + i);
  }
#else
  EACH_BATCH_AGAIN {
    REAL g[BATCH], v[BATCH];
    EACH_HELD(i, r) {
      LOAD_ROW(G_TAG, gy, r, g + i, 0);
      LOAD_ROW(Y_TAG, y, r, v + i, 0);
    }
    EACH_HELD(i, r) if (HAS_ANY(r)) {
      EACH_OF_PACK(k) g[i + k] = LOG ? g[i + k] - exp(v[i + k]) * sum : (g[i + k] - sum) * v[i + k];
      STORE_ROW(X_TAG, gx, r, g + i);
    }
  }
#endif
}
