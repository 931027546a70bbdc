"""Read the files of domains. What needs no file is in `qserver.query.domain_file`."""
