"""The web pages, rendered on the server. They are a client of the service, as HTTP's JSON is.

Begin with `blueprint`, which joins the groups of `pages`. `cookies` protects forms, `faults` says
what went wrong in the words of the form, `numbers` says how numbers are written.
"""
