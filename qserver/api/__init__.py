"""HTTP: an app factory, a blueprint per resource, errors as problem details.

Imports no numerics, so that `wsgi` can set the thread limits before numpy loads.
"""
