"""A program's frame: how it starts, logs and is traced.

Begin with `start`: BLAS threads, loading, log lines and completion by a shell; `telemetry`
has the traces. Nothing here imports numpy.
"""
