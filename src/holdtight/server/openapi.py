"""The OpenAPI 3.1 document, from the same structures that decode the bodies."""

from functools import cache
from typing import Any

import msgspec

from holdtight import __version__
from holdtight.server.looks import LOOKS
from holdtight.server.problems import TITLES
from holdtight.server.verbs import VERBS

__all__ = ["document"]

_POST = (400, 401, 403, 408, 409, 410, 413, 415, 421, 422, 423, 429, 431, 500, 503)
_GET = (400, 401, 403, 408, 421, 429, 431, 500, 503)


@cache
def document() -> bytes:
    _, components = msgspec.json.schema_components(
        [body for body, _, _ in VERBS.values()], ref_template="#/components/schemas/{name}"
    )
    components["Problem"] = {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string"},
            "detail": {"type": "string"},
            "name": {"type": "string"},
            "reason": {"type": "string"},
            "holder": {"type": "object"},
        },
        "required": ["type", "title", "status", "code", "detail"],
    }
    paths: dict[str, Any] = {}
    for word, (body, role, function) in VERBS.items():
        codes = (200, 202) if word == "acquire" else (201,) if word == "session/open" else (200,)
        paths[f"/v1/{word}"] = {
            "post": {
                "operationId": function.__name__,
                "description": f"Needs the role {role}.",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}},
                },
                "responses": _responses(codes, _POST),
            }
        }
    for word, (look, role, allowed, _) in LOOKS.items():
        paths[f"/v1/{word}"] = {
            "get": {
                "operationId": f"get_{look.__name__}",
                "description": f"Needs the role {role}.",
                "parameters": _parameters(allowed, "name" if word in ("lock", "leader") else None),
                "responses": _responses((200,), _GET),
            }
        }
    events: dict[str, Any] = {
        "operationId": "get_events",
        "parameters": _parameters(("prefix", "name", "only"), None),
        "responses": {"200": {"description": "a stream", "content": {"text/event-stream": {}}}, **_problems(_GET)},
    }
    paths["/v1/events"] = {"get": events}
    for path in ("/healthz", "/readyz"):
        answers = {"200": {"description": "yes"}, **({"503": {"description": "no"}} if path == "/readyz" else {})}
        paths[path] = {"get": {"operationId": path[1:], "security": [], "responses": answers}}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "holdtight", "version": __version__},
            "security": [{"bearer": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _parameters(allowed: tuple[str, ...], required: str | None) -> list[dict[str, Any]]:
    return [
        {"name": each, "in": "query", "required": each == required, "schema": {"type": "string"}} for each in allowed
    ]


def _responses(codes: tuple[int, ...], problems: tuple[int, ...]) -> dict[str, Any]:
    done = {"description": "done", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {**{str(code): done for code in codes}, **_problems(problems)}


def _problems(codes: tuple[int, ...]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {str(code): {"description": TITLES[code], "content": content} for code in codes}
