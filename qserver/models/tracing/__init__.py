"""What a released model could leak about its members.

Begin with `bound`, the power of the best tracing test. `cap` and `gate` turn an owner's limit
on it into a decision, `attack` and `roc` simulate the test, `report` puts the figures together.
"""
