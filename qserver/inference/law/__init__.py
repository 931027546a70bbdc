"""The law of an error: a sum of independent Laplace variables.

Begin with `laplace_sum`, which chooses the method. `closed_form` serves equal scales, `contour`
everything else, with a `certificate` of its error; `bounds` settles clear cases before any
integral. `convolution` and `monte_carlo` are the two methods of the source paper.

Door: `laplace_sum.LaplaceSum`.
"""
