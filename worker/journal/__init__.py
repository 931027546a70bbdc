"""The worker's own memory of a population: append-only, fsynced, chained by digests.

Begin with `journal`. `records` says what a line holds, `state` what the lines add up to, and
`sections` how the journal decides between two workers.
"""
