"""The worker's memory of a population: append-only, fsynced, chained by digests.

Begin with `journal`, the file. `records` defines its lines, and `state` their sum with the rules
for the next one. A spend goes through `sections`, which decides between two workers.
`witness` tells whether the file is an older copy of itself.
"""
