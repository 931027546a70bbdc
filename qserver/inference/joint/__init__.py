"""Several errors at once: whole workloads, and quotients of two counts.

Begin with `joint`: the chance that all errors stay within their half-widths. `joint_draws` bounds
it by random draws if no closed form is good enough. `quotient` gives intervals of N / D.

Which one to call: `joint.joint_confidence` for the chance at given half-widths,
`joint.least_factor` for the half-widths at a given chance, `quotient.JointParts` for a quotient.
"""
