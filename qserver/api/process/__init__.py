"""What an HTTP process is set up with: gunicorn's settings and worker, logs and counters."""
