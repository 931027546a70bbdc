"""The store on a real server."""
