"""One file that holds store, journals and private data as of one moment, and the way back.

`archive` is the file, `making` fills it, and `putting_back` makes a state folder of it. Begin with
`putting_back`: it says when a restored journal may be spent on.
"""
