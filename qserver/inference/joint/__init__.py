"""Several errors at once: whole workloads, and quotients of two counts.

Begin with `joint`, the chance that all errors stay within their half-widths. `joint_draws`
bounds it by random draws where no closed form serves; `quotient` gives intervals of N / D.
"""
