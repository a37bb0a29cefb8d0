// SPDX-License-Identifier: MIT
#pragma once

namespace dlprim::welford {

// Mean and sum of squared deviations in one pass, as code of a ReduceCode: Welford's update for an element x0, merged
// as by Chan, Golub and LeVeque (1979). The mean is mean + low: steps that are small beside it, as of data far from
// zero, would be lost in one number.
inline constexpr const char* members = "REAL mean, low, m2, n;";
inline constexpr int member_count = 4;
inline constexpr const char* start = "p->mean = 0; p->low = 0; p->m2 = 0; p->n = 0;";
inline constexpr const char* update =
    "p->n += 1; const REAL d = ((REAL)x0 - p->mean) - p->low; MOVE_MEAN(p, d * RECIPROCAL(p->n)); "
    "p->m2 += d * (((REAL)x0 - p->mean) - p->low);";
// Of ITEMS elements at once: their own mean, deviations from it, and one merge. Each is scaled before it is added, so that
// no sum overflows.
inline constexpr const char* block = "acc_t q; q.mean = 0; q.low = 0; q.m2 = 0; q.n = ITEMS; "
                                     "EACH_ITEM q.mean += (REAL)ITEM * (1 / (REAL)ITEMS); "
                                     "EACH_ITEM { const REAL d = (REAL)ITEM - q.mean; q.low += d; q.m2 += d * d; } "
                                     "q.low *= 1 / (REAL)ITEMS; q.m2 -= q.low * q.low * ITEMS; combine(p, q);";
// An empty accumulator is left out: its distance may be infinite, or its square.
inline constexpr const char* merge =
    "if (p->n == 0) *p = q; else if (q.n > 0) { "
    "const REAL n_ = p->n + q.n, f = q.n * RECIPROCAL(n_), a = q.mean - p->mean, b = q.low - p->low, d = a + b; "
    "p->m2 += q.m2 + d * d * p->n * f; MOVE_MEAN(p, a * f); MOVE_MEAN(p, b * f); p->n = n_; }";

}  // namespace dlprim::welford
