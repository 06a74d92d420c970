from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.framing import first_words, take_values, value_end

VALUES = [
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":12\r\n",
    b",1.5\r\n",
    b"#t\r\n",
    b"_\r\n",
    b"(12345678901234567890\r\n",
    b"$5\r\na\r\nbc\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"!5\r\nERR x\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
    b"~1\r\n+x\r\n",
    b"%1\r\n+proto\r\n:3\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
    b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
    b"PING\r\n",
]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_ends_where_it_ends_and_not_before(value: bytes) -> None:
    assert value_end(value) == len(value)
    assert value_end(b"xy" + value + b"+more\r\n", 2) == 2 + len(value)
    for size in range(len(value)):
        assert value_end(value[:size]) is None


@given(st.lists(st.sampled_from(VALUES)), st.randoms(use_true_random=False))
def test_a_stream_is_cut_into_its_values_however_it_arrives(values: list[bytes], random: Random) -> None:
    stream, buffer, found = b"".join(values), bytearray(), list[bytes]()
    while stream:
        size = random.randint(1, 20)
        buffer += stream[:size]
        stream = stream[size:]
        found += take_values(buffer)
    assert found == values
    assert not buffer


def test_words_of_requests_and_pushes() -> None:
    assert first_words(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n") == [b"GET", b"a"]
    assert first_words(b"SET a b\r\n", 2) == [b"SET", b"a"]
    assert first_words(b">2\r\n+message\r\n:1\r\n") == [b"message"]
    assert first_words(b"*0\r\n") == []
    assert first_words(b"*2\r\n$4\r\na\r\nb\r\n$0\r\n\r\n") == [b"a\r\nb", b""]
