"""The routes of HTTP: a blueprint for each resource, and no logic beyond reading and replying."""
