// SPDX-License-Identifier: MIT
// Divide and conquer for symmetric tridiagonal matrices (J. Cuppen, 1981; M. Gu, S. Eisenstat, "A divide-and-conquer
// algorithm for the symmetric tridiagonal eigenproblem", 1995): two solved halves of a block and the element beside the
// diagonal between them are D + rho z z^T in the basis of the halves' eigenvectors.
// The largest numbers are about 1. Defines, beside those of linalg.clh: GROUP; EPSILON; SMALLEST, a normal number; TINY,
// what counts as zero beside 1, far enough from the smallest numbers to divide by.
#include "linalg/group_sums.clh"

typedef struct {
  int n, padded, size, blocks;  // order, and with rows added; rows of a block (of the leaves: of one); blocks of a matrix
} Level;

#define BESIDE(i) ((i) >= 0 && (i) + 1 < p.n ? e[i] : 0)

// Leaves [batch blocks, size, size] of the tridiagonal matrices, less what rho z z^T will add. Rows added have the largest
// eigenvalue, and nothing beside the diagonal.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void leaves(CONST_GLOBAL(T, diagonal),
                                                                        CONST_GLOBAL(T, beside), GLOBAL(T, out),
                                                                        Level p) {
  __local T most[GROUP];
  const int id = get_local_id(0), block = get_group_id(0) % p.blocks, start = block * p.size;
  const long batch = get_group_id(0) / p.blocks;
  __global const T *d = CONST_POINTER(T, diagonal) + batch * p.n, *e = CONST_POINTER(T, beside) + batch * p.n;
  __global T *out = POINTER(T, out) + get_group_id(0) * (long)p.size * p.size;
  T bound = 0;
  for (int i = id; i < p.n; i += GROUP) bound = fmax(bound, fabs(d[i]) + fabs(BESIDE(i - 1)) + fabs(BESIDE(i)));
  most[id] = bound;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int c = 0; c < GROUP; c++) bound = fmax(bound, most[c]);
  for (int t = id; t < p.size * p.size; t += GROUP) {
    const int i = t / p.size, j = t % p.size, row = start + i;
    T value = 0;
    if (i == j) {
      value = row < p.n ? d[row] : bound;
      if (i == 0) value -= fabs(BESIDE(row - 1));
      if (i == p.size - 1) value -= fabs(BESIDE(row));
    } else if (abs(i - j) == 1) {
      value = BESIDE(start + min(i, j));
    }
    out[t] = value;
  }
}

// One block's problem, of arrays [blocks of all matrices, size], each in the order of D.
typedef struct {
  T d, z, pole, weight, root, cosine, sine, unused;
} Entry;
typedef struct {
  int source;  // the column of the halves' eigenvectors
  int index;  // of the root that the column belongs to, -1: deflated
  int position, nearest;  // of a pole; the pole from which a root is counted
  int first, second;  // of a rotation
  int poles, rotations;  // of the block, in its first entry
} Place;

// Order D, find z, and leave out what is an eigenvalue already (deflation): elements of z that are nearly zero, and of two
// nearly equal elements of D one, after a rotation that makes its z zero.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void deflate(CONST_GLOBAL(T, sorted),
                                                                         CONST_GLOBAL(int, order),
                                                                         CONST_GLOBAL(T, vectors),
                                                                         CONST_GLOBAL(T, beside), GLOBAL(Entry, entries),
                                                                         GLOBAL(Place, places), Level p) {
  __local T chunk_d[GROUP], chunk_z[GROUP];
  const int id = get_local_id(0), size = p.size, middle = size / 2;
  const long block = get_group_id(0), batch = block / p.blocks;
  const int boundary = (int)(block % p.blocks) * size + middle - 1;
  __global const T *e = CONST_POINTER(T, beside) + batch * p.n, *sorted = CONST_POINTER(T, sorted) + block * size;
  __global const int *order = CONST_POINTER(int, order) + block * size;
  __global const T *q = CONST_POINTER(T, vectors) + block * size * middle;  // two of middle x middle
  __global Entry *entries = POINTER(Entry, entries) + block * size;
  __global Place *places = POINTER(Place, places) + block * size;
  const T between = BESIDE(boundary), rho = 2 * fabs(between), root_half = (T)0.70710678118654752440;
  for (int i = id; i < size; i += GROUP) {
    const int to = order[i];
    const T z = i < middle ? q[(long)(middle - 1) * middle + i] : q[(long)middle * middle + i - middle] * (between < 0 ? -1 : 1);
    entries[to].d = sorted[to], entries[to].z = z * root_half;
    places[to].source = i, places[to].index = -1;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  const T tolerance = fmax(8 * EPSILON * fmax(rho, fmax(fabs(sorted[0]), fabs(sorted[size - 1]))), TINY);
  int last = -1, poles = 0, rotations = 0;  // the pole under way, not yet written
  T last_d = 0, last_z = 0;
  for (int start = 0; start < size; start += GROUP) {
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (start + id < size) chunk_d[id] = entries[start + id].d, chunk_z[id] = entries[start + id].z;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (int c = 0; id == 0 && c < min(GROUP, size - start); c++) {
      const T z = chunk_z[c], d = chunk_d[c], square = z * z + last_z * last_z;
      if (!(rho * fabs(z) > tolerance)) continue;
      T own_d = d, own_z = z;
      if (last >= 0 && fabs((d - last_d) * z * last_z) <= tolerance * square) {
        const T length = sqrt(square), cosine = z / length, sine = -last_z / length;
        entries[rotations].cosine = cosine, entries[rotations].sine = sine;
        places[rotations].first = last, places[rotations].second = start + c;
        rotations++;
        entries[last].d = last_d * cosine * cosine + d * sine * sine;
        own_d = last_d * sine * sine + d * cosine * cosine, own_z = length;
      } else if (last >= 0) {
        entries[poles].pole = last_d, entries[poles].z = last_z;
        places[poles].position = last, places[last].index = poles;
        poles++;
      }
      last = start + c, last_d = own_d, last_z = own_z;
    }
  }
  if (id == 0) {
    if (last >= 0) {
      entries[poles].pole = last_d, entries[poles].z = last_z;
      places[poles].position = last, places[last].index = poles;
      poles++;
    }
    places[0].poles = poles, places[0].rotations = rotations;
  }
}

#ifdef FP64
#define AS_BITS(x) (sizeof(T) == 8 ? as_long((double)(x)) : (long)as_int((float)(x)))
#define OF_BITS(x) (sizeof(T) == 8 ? (T)as_double((long)(x)) : (T)as_float((int)(x)))
#else
#define AS_BITS(x) ((long)as_int(x))
#define OF_BITS(x) as_float((int)(x))
#endif

#define PROBLEM                                                                         \
  const int id = get_local_id(0);                                                       \
  const long block = get_group_id(0) / p.size;                                          \
  const int own = get_group_id(0) % p.size;                                             \
  __global Entry *entries = POINTER(Entry, entries) + block * p.size;                   \
  __global Place *places = POINTER(Place, places) + block * p.size;                     \
  const int poles = places[0].poles;

// Roots of 1 + rho sum z_i^2 / (pole_i - x): bisection on the bits of the distance to the nearest pole, to the last one.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void roots(CONST_GLOBAL(T, beside), GLOBAL(Entry, entries),
                                                                       GLOBAL(Place, places), Level p) {
  __local T shared[2][1][PARTS];
  PROBLEM
  if (own >= poles) return;
  const int boundary = (int)(block % p.blocks) * p.size + p.size / 2 - 1;
  const T rho = 2 * fabs((CONST_POINTER(T, beside) + block / p.blocks * p.n)[boundary]);
  const bool last = own == poles - 1;
  T width = last ? rho : (entries[own + 1].pole - entries[own].pole) / 2, sum[1];
  int origin = own, turn = 0;
#define SUM_AT(distance)                                                                       \
  {                                                                                            \
    const T from = entries[origin].pole, x = distance;                                         \
    sum[0] = 0;                                                                                \
    for (int i = id; i < poles; i += GROUP) {                                                  \
      const T z = entries[i].z;                                                                \
      sum[0] += z * z / ((entries[i].pole - from) - x);                                        \
    }                                                                                          \
    sums_of_group(sum, 1, shared[turn], id);                                                   \
    turn = 1 - turn, sum[0] = 1 + rho * sum[0];                                                \
  }
  if (last) {  // z has length 1, up to rounding
    width *= 1 + (T)0.001;
  } else {
    SUM_AT(width)
    if (sum[0] < 0) origin = own + 1;
  }
  const T sign = origin == own ? 1 : -1;
  long low = AS_BITS(SMALLEST), high = max(low + 1, AS_BITS(width));
  while (high - low > 1) {
    const long middle = low + (high - low) / 2;
    SUM_AT(sign * OF_BITS(middle))
    if (sum[0] * sign < 0) low = middle;
    else high = middle;
  }
  if (id == 0) entries[own].root = sign * OF_BITS(high), places[own].nearest = origin;
}

// pole_i - root_j
#define DIFFERENCE(i, j) ((entries[i].pole - entries[places[j].nearest].pole) - entries[j].root)

// The z of which the roots found are the exact ones, so that vectors are orthogonal.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void weights(GLOBAL(Entry, entries), GLOBAL(Place, places),
                                                                         Level p) {
  __local T shared[1][PARTS];
  PROBLEM
  if (own >= poles) return;
  T product[1] = {1};
  for (int j = id; j < poles; j += GROUP)
    product[0] *= j == own ? DIFFERENCE(own, j) : DIFFERENCE(own, j) / (entries[own].pole - entries[j].pole);
  products_of_group(product, 1, shared, id);
  if (id == 0) entries[own].weight = copysign(sqrt(fabs(product[0])), entries[own].z);
}

// Eigenvalues and the block's eigenvectors in the basis of its halves': column `own` of out [blocks, size, size].
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void block_vectors(GLOBAL(Entry, entries),
                                                                               GLOBAL(Place, places), GLOBAL(T, values),
                                                                               GLOBAL(T, out), Level p) {
  __local T shared[1][PARTS];
  PROBLEM
  const int root = places[own].index;
  __global T *out = POINTER(T, out) + block * p.size * p.size + own;
#define ELEMENT(i) out[(long)places[i].source * p.size]
  for (int i = id; i < p.size; i += GROUP) out[(long)i * p.size] = 0;
  T sum[1] = {0};
  for (int i = id; root >= 0 && i < poles; i += GROUP) {
    const T u = entries[i].weight / DIFFERENCE(i, root);
    sum[0] += u * u;
  }
  sums_of_group(sum, 1, shared, id);
  barrier(CLK_GLOBAL_MEM_FENCE);
  const T scale = 1 / sqrt(sum[0]);
  for (int i = id; root >= 0 && i < poles; i += GROUP)
    ELEMENT(places[i].position) = entries[i].weight / DIFFERENCE(i, root) * scale;
  if (root < 0 && id == 0) ELEMENT(own) = 1;
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (id > 0) return;
  for (int r = places[0].rotations - 1; r >= 0; r--) {
    const int first = places[r].first, second = places[r].second;
    const T c = entries[r].cosine, s = entries[r].sine, x = ELEMENT(first), y = ELEMENT(second);
    ELEMENT(first) = c * x - s * y, ELEMENT(second) = s * x + c * y;
  }
  POINTER(T, values)[block * p.size + own] =
      root < 0 ? entries[own].d : entries[places[root].nearest].pole + entries[root].root;
}
