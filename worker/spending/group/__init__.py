"""Jobs that are spent for together: what is planned for each, on the state ahead of it.

Begin with `planner`, which plans a group. `plan` has its parts and how many fit; `replicas` has
the public state that they are planned on, and the sealed periods of data that arrive.
"""
