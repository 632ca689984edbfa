"""Special functions: erf, gamma, zeta, Bessel and incomplete gamma and beta functions."""
