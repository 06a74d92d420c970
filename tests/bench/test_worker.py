import io
import json
import sys
from types import ModuleType
from typing import Any

import pytest

from bench.variants import Variant
from bench.worker import serve


class Stub(Variant):
    PACKAGES = ("pytest", "no-such-package")
    closed = False

    def pair(self, name: str) -> None:
        if self.url == "bad://":
            raise OSError("no server")

    def close(self) -> None:
        Stub.closed = True


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("bench.variants.stub")
    vars(module)["VARIANT"] = Stub
    monkeypatch.setitem(sys.modules, "bench.variants.stub", module)


def _talk(*requests: dict[str, Any], variant: str = "stub", url: str = "stub://") -> list[dict[str, Any]]:
    answers = io.StringIO()
    serve(variant, url, io.StringIO("".join(json.dumps(each) + "\n" for each in requests)), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


@pytest.mark.usefixtures("stub")
def test_each_request_gets_one_line_and_the_variant_is_closed_at_the_end() -> None:
    versions, pairs = _talk({"do": "versions", "with": {}}, {"do": "free.pairs", "with": {"seconds": 0.001}})
    assert versions == {"result": {"pytest": pytest.__version__, "no-such-package": "from source"}}
    assert pairs["result"]
    assert all(isinstance(duration, int) for duration in pairs["result"])
    assert Stub.closed


@pytest.mark.usefixtures("stub")
def test_a_drill_that_fails_is_answered_and_the_worker_goes_on() -> None:
    failed, unknown, well = _talk(
        {"do": "free.pairs", "with": {"seconds": 0.001}},
        {"do": "free.nothing", "with": {}},
        {"do": "versions", "with": {}},
        url="bad://",
    )
    assert failed == {"error": "OSError: no server"}
    assert unknown["error"].startswith("AttributeError")
    assert "result" in well


@pytest.mark.usefixtures("stub")
def test_threads_that_fail_fail_the_drill() -> None:
    (answer,) = _talk({"do": "free.threads", "with": {"count": 3, "seconds": 0.01}}, url="bad://")
    assert answer == {"error": "OSError: no server"}


def test_a_variant_that_cannot_be_loaded_says_why() -> None:
    (answer,) = _talk({"do": "versions", "with": {}}, variant="no_such_variant")
    assert "no_such_variant" in answer["error"]
