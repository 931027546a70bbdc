"""The law of an error: a sum of independent Laplace variables.

Begin with `laplace_sum`, which settles clear cases without an integral and chooses the method:
`evaluator.EqualScales` for equal scales, else `contour`, with a bound on the error.

Which one to call: `laplace_sum.LaplaceSum`. `paper_methods` has the two methods of the source
paper; its draws are an `evaluator`. For whole workloads, `joint.joint_confidence` bounds the chance
that all errors stay within given half-widths, and `joint.least_factor` finds half-widths for a
given chance.
"""
