"""The law of an error: a sum of independent Laplace variables.

Begin with `laplace_sum`, which chooses the method: `closed_form` for equal scales, else `contour`,
with a `certificate` of the error. `bounds` settles clear cases without an integral.

Which one to call: `laplace_sum.LaplaceSum`. `convolution` and `monte_carlo` are the two methods of
the source paper; pass one as `evaluator` to use it.
"""
