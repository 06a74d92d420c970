from xml.etree import ElementTree

from bench import plot
from bench.results import Bar, Chart, label
from bench.svg import Svg
from bench.targets import Better

NS = "{http://www.w3.org/2000/svg}"


def _texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{NS}text")]


def test_text_and_attributes_are_escaped() -> None:
    picture = Svg(10, 10, "a < b")
    picture.text(1, 2, "x < y & z")
    picture.element("g", data_note='say "hi"')
    root = ElementTree.fromstring(str(picture))
    assert _texts(root) == ["x < y & z"]
    assert root.findtext(f"{NS}title") == "a < b"
    group = root.find(f"{NS}g")
    assert group is not None
    assert group.get("data-note") == 'say "hi"'


def test_numbers_are_short() -> None:
    picture = Svg(10, 10, "t")
    picture.box(1 / 3, 2.0, 100.5, 7, "#fff")
    rect = ElementTree.fromstring(str(picture)).find(f"{NS}rect")
    assert rect is not None
    assert (rect.get("x"), rect.get("y"), rect.get("width")) == ("0.33", "2", "100.5")


def _chart(*bars: Bar) -> Chart:
    return Chart("sync pair", "µs", Better.LOWER, bars)


def test_a_panel_shows_every_variant_with_its_figure() -> None:
    chart = _chart(Bar("floor", 25.0, 40.0), Bar("holdtight", 30.0, 50.0), Bar("redis_py", 105.0, 200.0))
    texts = _texts(ElementTree.fromstring(plot.draw([chart], title="t", lines=["one", "two"])))
    assert texts[:3] == ["t", "one", "two"]
    assert {"sync pair", "floor", "holdtight", "redis-py", "25.0  (p99 40.0)", "105  (p99 200)"} <= set(texts)


def test_bars_are_in_proportion_and_inside_the_picture() -> None:
    chart = _chart(Bar("holdtight", 25.0), Bar("redis_py", 100.0))
    root = ElementTree.fromstring(plot.draw([chart], title="t", lines=[]))
    background, *bars = root.iter(f"{NS}rect")
    ours, peer = (float(bar.get("width", "0")) for bar in bars)
    assert abs(ours * 4 - peer) < 0.1
    assert all(
        float(bar.get("x", "0")) + float(bar.get("width", "0")) < float(background.get("width", "0")) for bar in bars
    )


def test_a_chart_without_bars_is_left_out() -> None:
    root = ElementTree.fromstring(plot.draw([_chart(), _chart(Bar("floor", 0.0))], title="t", lines=[]))
    assert _texts(root).count("sync pair") == 1


def test_long_names_and_figures_do_not_run_into_the_bars() -> None:
    name = "holdtight, five nodes, spin=False, and more"
    chart = Chart(
        "a title as long as a title can be, across cores", "owner changes/s", Better.HIGHER, (Bar(name, 1e6),)
    )
    root = ElementTree.fromstring(plot.draw([chart], title="t", lines=[]))
    _, bar = root.iter(f"{NS}rect")
    labels = {each.text: float(each.get("x", "0")) for each in root.iter(f"{NS}text")}
    assert float(bar.get("x", "0")) - labels[name] > 7 * len(name)
    rows = {
        each.get("y")
        for each in root.iter(f"{NS}text")
        if each.text in (chart.title, "owner changes/s, higher is better")
    }
    assert len(rows) == 2, "title and unit are on lines of their own"


def test_a_long_title_stays_in_its_panel() -> None:
    chart = Chart("a title that is as long as a title never should be, " * 3, "µs", Better.LOWER, (Bar("floor", 1.0),))
    root = ElementTree.fromstring(plot.draw([chart], title="t", lines=[]))
    (size,) = [float(each.get("font-size", "0")) for each in root.iter(f"{NS}text") if each.text == chart.title]
    assert plot._width(chart.title, size) <= plot.PANEL + 1
    assert {"holdtight, to read", "holdtight, semaphore", "holdtight, acks=1", "holdtight, lock service"} == {
        label(name) for name in ("reader", "permit", "acked", "service")
    }
    assert all(Bar(name, 1.0).is_ours for name in ("reader", "permit", "acked", "service", "library", "drop_in"))
    assert not any(Bar(name, 1.0).is_ours for name in ("bare", "floor", "redis_py"))
