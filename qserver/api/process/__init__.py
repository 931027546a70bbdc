"""What an HTTP process is set up with: thread limits, gunicorn's settings, logs and counters.

`blas_threads` must be imported before numpy.
"""
