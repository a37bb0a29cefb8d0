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
// An empty accumulator is left out: its distance may be infinite, or its square.
inline constexpr const char* merge =
    "if (p->n == 0) *p = q; else if (q.n > 0) { "
    "const REAL n_ = p->n + q.n, f = q.n / n_, a = q.mean - p->mean, b = q.low - p->low, d = a + b; "
    "p->m2 += q.m2 + d * d * p->n * f; MOVE_MEAN(p, a * f); MOVE_MEAN(p, b * f); p->n = n_; }";

}  // namespace dlprim::welford
