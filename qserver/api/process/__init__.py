"""What an HTTP process is set up with: gunicorn's settings and worker, its store and its logs."""
