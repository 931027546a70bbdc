"""The use cases of the online side: one method for each thing that a user can do.

Begin with `service`, and `port`, the shape that HTTP and the pages rely on. `ask` answers from
history or queues a job, `statements` serves SQL, `models` serves models, `insight` and `audit`
serve the pages for looking and for owners.
"""
