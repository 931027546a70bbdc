"""The cells of a statement's table: made from answers, and what is said beside them.

What was answered for nothing is kept: questions and workloads by what they depend on
(`kept_answers`), statements by the state they were answered in (`kept`)."""
