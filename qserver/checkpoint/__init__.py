"""Checkpoints: files of named arrays with a head, so that a restart need not replay a history.

Begin with `file.py`: the format, and the folder where files are. What the arrays mean is the
business of the rooms that wrote them; `qserver/answering/checkpoint.py` puts these together.
"""
