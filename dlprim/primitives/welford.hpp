// SPDX-License-Identifier: MIT
#pragma once

namespace dlprim::welford {

// Mean and sum of squared deviations in one pass, as code of a ReduceCode: Welford's update for an element x0, merged
// as by Chan, Golub and LeVeque (1979).
inline constexpr const char* members = "REAL mean, m2, n;";
inline constexpr const char* start = "p->mean = 0; p->m2 = 0; p->n = 0;";
inline constexpr const char* update = "p->n += 1; const REAL d = (REAL)x0 - p->mean; p->mean += d * RECIPROCAL(p->n); "
                                      "p->m2 += d * ((REAL)x0 - p->mean);";
inline constexpr const char* merge =
    "const REAL n_ = p->n + q.n, d = q.mean - p->mean, f = n_ > 0 ? q.n / n_ : 0; p->m2 += q.m2 + d * d * p->n * f; "
    "p->mean += d * f; p->n = n_;";

}  // namespace dlprim::welford
