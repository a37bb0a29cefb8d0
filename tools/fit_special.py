#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Computes the Chebyshev expansions of dlprim/kernels/lib/special_tables.clh with mpmath and prints the file.

Each table holds the coefficients of an expansion sum' c[k] T_k(t) of a smooth function over t in [-1, 1], as many as
double precision needs. The .clh code maps x to t and puts the singular factors back.
"""

import sys

import mpmath as mp

mp.mp.dps = 40
ACCURACY = mp.mpf("2e-17")  # relative to the largest coefficient


def chebyshev(function, degree=64):
    """Coefficients of the expansion, cut where they fall below ACCURACY."""
    nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / degree) for k in range(degree)]
    values = [function(t) for t in nodes]
    coefficients = []
    for j in range(degree):
        total = mp.fsum(v * mp.cos(j * mp.pi * (k + mp.mpf(1) / 2) / degree) for k, v in enumerate(values))
        coefficients.append(total * 2 / degree)
    coefficients[0] /= 2
    largest = max(abs(c) for c in coefficients)
    while len(coefficients) > 1 and abs(coefficients[-1]) < ACCURACY * largest:
        coefficients.pop()
    return coefficients


def at_zero(function, value):
    """The function with its limit at 0 filled in."""
    return lambda x: mp.mpf(value) if x == 0 else function(x)


def phase(order, part):
    """P (part 0) or Q (part 1) of Hankel's expansion of order `order` at u = (8/x)^2, Q divided by 8/x."""

    def value(u):
        if u < mp.mpf("1e-12"):
            return mp.mpf(1) if part == 0 else mp.mpf(4 * order * order - 1) / 64
        x = 8 / mp.sqrt(u)
        angle = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        scale = mp.sqrt(mp.pi * x / 2)
        p = scale * (j * mp.cos(angle) + y * mp.sin(angle))
        q = scale * (y * mp.cos(angle) - j * mp.sin(angle))
        return p if part == 0 else q / (8 / x)

    return value


def airy_phase(part):
    """P or Q of the expansion of Ai(-x) at u = 1/zeta^2 in units of its largest value, zeta = 2/3 x^(3/2), x >= 6."""
    top = 1 / (mp.mpf(2) / 3 * mp.mpf(6) ** mp.mpf(1.5)) ** 2

    def value(s):
        u = s * top
        if u < mp.mpf("1e-12"):
            return mp.mpf(1) if part == 0 else mp.mpf(5) / 72
        zeta = 1 / mp.sqrt(u)
        x = (zeta * 3 / 2) ** (mp.mpf(2) / 3)
        scale = mp.sqrt(mp.pi) * x ** mp.mpf(0.25)
        a, b, angle = mp.airyai(-x), mp.airybi(-x), zeta + mp.pi / 4
        p = scale * (a * mp.sin(angle) + b * mp.cos(angle))
        q = scale * (b * mp.sin(angle) - a * mp.cos(angle))
        return p if part == 0 else q / mp.sqrt(u)

    return value


def inverse_normal(p):
    return (
        mp.sqrt(2) * mp.erfinv(2 * p - 1)
        if p > mp.mpf("1e-8")
        else mp.findroot(lambda x: mp.log(mp.ncdf(x)) - mp.log(p), -mp.sqrt(-2 * mp.log(p)))
    )


def normal_center(s):
    """ndtri(1/2 + q) / q at q^2 = s."""
    q = mp.sqrt(s)
    return mp.sqrt(2 * mp.pi) if q < mp.mpf("1e-15") else inverse_normal(mp.mpf(1) / 2 + q) / q


def normal_tail(r):
    """-ndtri(p) at r = sqrt(-log p)."""
    return -inverse_normal(mp.exp(-r * r))


def interval(function, low, high):
    low, high = mp.mpf(low), mp.mpf(high)
    return lambda t: function((t * (high - low) + high + low) / 2)


EULER = mp.euler
TABLES = {
    "i0e_small": interval(lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8),
    "i0e_large": interval(
        at_zero(lambda u: mp.sqrt(8 / u) * mp.exp(-8 / u) * mp.besseli(0, 8 / u), 1 / mp.sqrt(2 * mp.pi)), 0, 1
    ),
    "i1e_small": interval(at_zero(lambda x: mp.exp(-x) * mp.besseli(1, x) / x, 0.5), 0, 8),
    "i1e_large": interval(
        at_zero(lambda u: mp.sqrt(8 / u) * mp.exp(-8 / u) * mp.besseli(1, 8 / u), 1 / mp.sqrt(2 * mp.pi)), 0, 1
    ),
    "k0_small": interval(
        lambda s: mp.besselk(0, mp.sqrt(s)) + mp.log(mp.sqrt(s) / 2) * mp.besseli(0, mp.sqrt(s)), 0, 4
    ),
    "k0_large": interval(
        at_zero(lambda u: mp.sqrt(2 / u) * mp.exp(2 / u) * mp.besselk(0, 2 / u), mp.sqrt(mp.pi / 2)), 0, 1
    ),
    "k1_small": interval(
        lambda s: mp.sqrt(s) * (mp.besselk(1, mp.sqrt(s)) - mp.log(mp.sqrt(s) / 2) * mp.besseli(1, mp.sqrt(s))), 0, 4
    ),
    "k1_large": interval(
        at_zero(lambda u: mp.sqrt(2 / u) * mp.exp(2 / u) * mp.besselk(1, 2 / u), mp.sqrt(mp.pi / 2)), 0, 1
    ),
    "j0_small": interval(lambda s: mp.besselj(0, mp.sqrt(s)), 0, 64),
    "j1_small": interval(at_zero(lambda s: mp.besselj(1, mp.sqrt(s)) / mp.sqrt(s), 0.5), 0, 64),
    "y0_small": interval(
        at_zero(
            lambda s: mp.bessely(0, mp.sqrt(s)) - 2 / mp.pi * mp.log(mp.sqrt(s)) * mp.besselj(0, mp.sqrt(s)),
            2 / mp.pi * (EULER - mp.log(2)),
        ),
        0,
        64,
    ),
    "y1_small": interval(
        at_zero(
            lambda s: (
                (
                    mp.bessely(1, mp.sqrt(s))
                    - 2 / mp.pi * (mp.log(mp.sqrt(s)) * mp.besselj(1, mp.sqrt(s)) - 1 / mp.sqrt(s))
                )
                / mp.sqrt(s)
            ),
            (2 * EULER - 1 - 2 * mp.log(2)) / (2 * mp.pi),
        ),
        0,
        64,
    ),
    "hankel_p0": interval(phase(0, 0), 0, 1),
    "hankel_q0": interval(phase(0, 1), 0, 1),
    "hankel_p1": interval(phase(1, 0), 0, 1),
    "hankel_q1": interval(phase(1, 1), 0, 1),
    "airy_middle": interval(mp.airyai, -6, 2),
    "airy_decay": interval(
        at_zero(
            lambda u: (
                2
                * mp.sqrt(mp.pi)
                * mp.airyai((mp.mpf(3) / 2 * AIRY / u) ** (mp.mpf(2) / 3))
                * ((mp.mpf(3) / 2 * AIRY / u) ** (mp.mpf(1) / 6))
                * mp.exp(AIRY / u)
            ),
            1,
        ),
        0,
        1,
    ),
    "airy_p": interval(airy_phase(0), 0, 1),
    "airy_q": interval(airy_phase(1), 0, 1),
    "erfcx_positive": lambda t: (
        mp.mpf(1)
        if t == 1
        else (lambda x: (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x))(mp.mpf("3.75") * (1 + t) / (1 - t))
    ),
    "ndtri_center": interval(normal_center, 0, "0.180625"),
    "ndtri_tail": interval(normal_tail, "1.5", 5),
    "ndtri_far": interval(normal_tail, 5, 28),
}
AIRY = mp.mpf(2) / 3 * mp.mpf(2) ** mp.mpf(1.5)  # zeta at x = 2


def main():
    print(
        "// SPDX-License-Identifier: MIT\n"
        "// Generated by tools/fit_special.py: Chebyshev coefficients, lowest first.\n"
        "#ifndef DLPRIM_SPECIAL_TABLES\n#define DLPRIM_SPECIAL_TABLES"
    )
    for name, function in TABLES.items():
        print(name, file=sys.stderr)
        coefficients = chebyshev(function)
        print(f"\n__constant const wide_t {name}[{len(coefficients)}] = {{")
        for c in coefficients:
            print(f"    {mp.nstr(c, 18, min_fixed=1, max_fixed=0)},")
        print("};")
    print("\n#endif")


if __name__ == "__main__":
    main()
