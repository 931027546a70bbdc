"""Bodies of requests and responses: one file for each subject, documented and checked."""
