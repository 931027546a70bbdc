"""Several errors at once: of whole workloads.

Begin with `joint`: the chance that all errors stay within their half-widths, bounded by random
draws if no closed form is good enough. `at_once` is about the posteriors of a workload, where
released answers disagree.

Which one to call: `joint.joint_confidence` for the chance at given half-widths,
`joint.least_factor` for the half-widths at a given chance, `at_once.held_at_once` for both given
what answers disagree about.
"""
