"""A dialect of SQLAlchemy over the driver: `qserver://HOST:PORT/DATASET`.

`dialect` makes connections from URLs and has the option that lets one spend; it also tells
SQLAlchemy what datasets and attributes there are. SQLAlchemy finds it by an entry point.
"""
