"""The OpenAPI 3.1 document, from the same structures that decode the bodies, and from those of the answers."""

from functools import cache
from typing import Any

import msgspec

from holdtight import __version__
from holdtight.server.answers import ANSWERS
from holdtight.server.looks import LOOKS, SORTS
from holdtight.server.params import MOST_LISTED
from holdtight.server.problems import TITLES
from holdtight.server.verbs import VERBS

__all__ = ["document"]

_POST = (400, 401, 403, 408, 409, 410, 413, 415, 421, 422, 423, 429, 431, 500, 503)
_GET = (400, 401, 403, 408, 421, 429, 431, 500, 503)
_ABOUT = (
    "Locks for programs in any language. Two rules: `valid` counts from the moment at which you sent the request; and "
    "after a lost answer or a 503 send the same request with the same request id again, to any instance."
)
_TEXT: dict[str, Any] = {"type": "string"}
_DURATION = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)?$", "description": "up to 50 s"}
_QUERY: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "minLength": 1, "maxLength": 512},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED},
    "minutes": {"type": "integer", "minimum": 1, "maximum": 180},
    "after": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
    "kind": {"enum": ["exclusive", "shared", "permits"]},
    "state": {"enum": ["held", "waiting"]},
    "sort": {"enum": list(SORTS)},
    "order": {"enum": ["asc", "desc"]},
    "wait": _DURATION,
}


@cache
def document() -> bytes:
    described = [body for body, _, _ in VERBS.values()]
    answers = [answer for by_status in ANSWERS.values() for answer in by_status.values()]
    template = "#/components/schemas/{name}"
    _, components = msgspec.json.schema_components(described, ref_template=template)
    _, shown = msgspec.json.schema_components(answers, ref_template=template)
    for schema in shown.values():
        schema.pop("additionalProperties", None)  # a later version may say more
    components |= shown
    components["Problem"] = {
        "type": "object",
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "code": _TEXT,
            "detail": _TEXT,
            "name": _TEXT,
            "reason": _TEXT,
            "holder": {"$ref": "#/components/schemas/HolderInShort"},
            "waited": {"type": "number", "description": "seconds"},
            "cycle": {"type": "array", "items": _TEXT, "description": "the locks of a deadlock"},
        },
        "required": ["type", "title", "status", "code", "detail"],
    }
    paths: dict[str, Any] = {}
    for word, (body, role, function) in VERBS.items():
        paths[f"/v1/{word}"] = {
            "post": {
                "operationId": function.__name__,
                "description": f"Needs the role {role}.",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}},
                },
                "responses": _answers(word) | _problems(_POST),
            }
        }
    for word, (look, role, allowed, _) in LOOKS.items():
        paths[f"/v1/{word}"] = {
            "get": {
                "operationId": f"get_{look.__name__}",
                "description": f"Needs the role {role}.",
                "parameters": _parameters(allowed, "name" if word in ("lock", "leader") else None),
                "responses": _answers(word) | _problems(_GET),
            }
        }
    stream = {"description": "a stream", "content": {"text/event-stream": {"schema": _TEXT}}, "headers": _headers()}
    events: dict[str, Any] = {
        "operationId": "get_events",
        "description": "Needs the role read. Last-Event-ID resumes.",
        "parameters": _parameters(("prefix", "name", "only"), None),
        "responses": {"200": stream, **_problems(_GET)},
    }
    paths["/v1/events"] = {"get": events}
    for path in ("/healthz", "/readyz"):
        state = {"content": {"application/json": {"schema": {"type": "object"}}}, "headers": _headers()}
        said = {"200": {"description": "yes", **state}} | (
            {"503": {"description": "no", **state}} if path == "/readyz" else {}
        )
        paths[path] = {"get": {"operationId": path[1:], "security": [], "responses": said}}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "holdtight", "version": __version__, "description": _ABOUT},
            "security": [{"bearer": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _headers() -> dict[str, Any]:
    return {"X-Request-Id": {"required": True, "schema": _TEXT}, "Cache-Control": {"required": True, "schema": _TEXT}}


def _parameters(allowed: tuple[str, ...], required: str | None) -> list[dict[str, Any]]:
    return [
        {"name": each, "in": "query", "required": each == required, "schema": _QUERY.get(each, _TEXT)}
        for each in allowed
    ]


def _answers(word: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, answer in ANSWERS[word].items():
        schema = {"$ref": f"#/components/schemas/{answer.__name__}"}
        content = {"application/json": {"schema": schema}}
        found[str(status)] = {"description": "done", "content": content, "headers": _headers()}
    return found


def _problems(codes: tuple[int, ...]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {str(code): {"description": TITLES[code], "content": content, "headers": _headers()} for code in codes}
