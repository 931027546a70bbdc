"""The web pages: server-rendered, for people. A client of the service, as HTTP's JSON is."""
