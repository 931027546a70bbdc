"""Jobs with a common spend: the plan of each, on the state that earlier ones leave.

Begin with `planner`, which plans a group. `plan` has its parts and how many fit; `replicas` has
the public state that they are planned on, and the sealed periods of data that arrive.
"""
