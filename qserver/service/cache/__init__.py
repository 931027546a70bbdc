"""What one process keeps of its results. All of it can be computed again.

Questions and workloads that cost nothing are kept by what they depend on (`answers`), statements
by the state that they were answered in (`statements`), `smooth_numbers` and those told by places in
order (`quantiles`) by the version of the history. `looks` finds such numbers aside. What takes long
is shared with all processes through the store (`shared_results`).
"""
