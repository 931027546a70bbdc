"""Many questions planned as one: priced, charged and measured together.

Begin with `workload`, which compares buying questions one by one with whole blocks. Where they cost
the same, `workload_base` says which is taken. `simultaneous` plans workloads whose intervals must
all hold at once, with the bound of `shared_noise`.
"""
