"""HTTP: an app factory, a blueprint per resource, errors as problem details.

Begin with `app`, the factory, and `routes`, the views. `bodies` holds the bodies of requests and
responses, `gate` and `access` say who may send what, `errors` turns errors into statuses, and
`openapi` makes the document from the routes themselves.

Imports no numerics, so that `wsgi` can set the thread limits before numpy loads.
"""
