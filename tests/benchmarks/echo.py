"""A bare JSON echo: what the same HTTP stack can do when there is nothing to answer."""

from __future__ import annotations

from flask import Flask, Response, jsonify, request

app = Flask(__name__, static_folder=None)


@app.post("/")
def echo() -> Response:
    """The request's JSON body, parsed and written again."""
    return jsonify(request.get_json())


@app.get("/healthz")
def healthz() -> Response:
    """That the process is up."""
    return jsonify({})
