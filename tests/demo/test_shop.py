from pathlib import Path

from demo.shop import Shop


def test_the_stock_is_spread_and_nothing_is_lost(tmp_path: Path) -> None:
    shop = Shop.create(tmp_path / "shop", articles=3, stock=10)
    assert [shop.stock(article) for article in range(3)] == [4, 3, 3]
    shop.close()


def test_two_sellers_that_read_the_same_stock_oversell(tmp_path: Path) -> None:
    one = Shop.create(tmp_path / "shop", articles=1, stock=1)
    two = Shop(tmp_path / "shop")
    seen = one.stock(0), two.stock(0)
    one.sell(0, seen[0] - 1)
    two.sell(0, seen[1] - 1)
    assert one.units_sold() == 2
    assert two.stock(0) == 0
    one.close()
    two.close()


def test_the_cache_counts_computations(tmp_path: Path) -> None:
    shop = Shop.create(tmp_path / "shop", articles=1, stock=1)
    assert shop.cached("page") is None
    shop.store("page", "first")
    shop.store("page", "second")
    assert shop.cached("page") == "second"
    assert shop.computations() == 2
    shop.close()
