"""Many questions planned as one: priced, charged and measured together.

Begin with `workload`, which compares buying questions one by one with whole blocks. `whole_domain`
says which is taken where they cost the same. `simultaneous` plans workloads whose intervals must
all hold at once, with the bound of `shared_noise`.
"""
