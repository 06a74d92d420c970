"""Every pitfall of docs/pitfalls.md is played twice: the wrong code does the harm, the right code does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pitfalls import giving_back, holding, inside, sections, servers, taking
from tests.docs.pitfalls.world import Scene, World
from tests.support.servers import FLAVOURS, RunningServer, StartServer, start

SECTIONS = {section.slug: section for section in sections.read()}


def _scenes(chapter: ModuleType) -> dict[str, Scene]:
    own = {name: thing for name, thing in vars(chapter).items() if getattr(thing, "__module__", "") == chapter.__name__}
    return {name: thing for name, thing in own.items() if callable(thing) and name in SECTIONS}


SCENES = {
    name: scene
    for chapter in (taking, giving_back, holding, inside, servers)
    for name, scene in _scenes(chapter).items()
}


def test_every_pitfall_has_a_wrong_block_and_a_right_one_and_a_scene() -> None:
    assert len(SECTIONS) >= 20
    for slug, section in SECTIONS.items():
        assert section.tags == ("wrong", "right"), f"{section.title}: {section.tags}"
        assert slug in SCENES, f"{section.title} needs a scene {slug}()"


@pytest.fixture(scope="module")
def stage() -> Iterator[RunningServer]:
    """One server for all scenes; a scene that ends its server starts one of its own."""
    flavour = next((each for each in FLAVOURS if each.missing() is None), FLAVOURS[0])
    if why := flavour.missing():
        pytest.skip(why)
    with start(flavour) as server:
        yield server


@pytest.mark.parametrize("which", ["wrong", "right"])
@pytest.mark.parametrize("slug", SECTIONS)
def test_the_wrong_code_does_harm_and_the_right_code_does_not(
    slug: str, which: str, stage: RunningServer, start_server: StartServer, tmp_path: Path
) -> None:
    section = SECTIONS[slug]
    stage.flushall()
    with World(section.wrong if which == "wrong" else section.right, stage, start_server, tmp_path) as world:
        assert SCENES[slug](world) is (which == "wrong")
