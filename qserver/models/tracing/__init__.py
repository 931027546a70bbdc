"""Membership tracing: how well anybody could tell whose records a released model was learnt from.

Begin with `bound`: the power of the best tracing test, its cap by epsilon, and the gate that turns
an owner's limit into a decision. `attack` carries out the test, and `report` collects all
figures.

Which one to call: `report.structural_report` before a release, `bound.max_power_at_fpr` for a
decision alone, `attack.TracingAttack` for an attack on records.
"""
