"""The setup of an HTTP process: gunicorn's settings and worker, the store, the logs."""
