from bench.wire import count_requests, pack

LOG = b"""+OK\r
+1690000000.123456 [0 127.0.0.1:50000] "EVALSHA" "abc" "1" "ht:{hot}"\r
+1690000000.123460 [0 lua] "get" "ht:{hot}"\r
+1690000000.123461 [0 lua] "publish" "inbox" "hot"\r
+1690000000.123470 [0 unix:/run/x.sock] "blpop" "say \\"hi\\"" "0"\r
+1690000000.1234"""


def test_calls_inside_scripts_are_not_requests() -> None:
    assert count_requests(LOG) == {"evalsha": 1, "blpop": 1}


def test_requests_of_some_connections_can_be_left_out() -> None:
    assert count_requests(LOG, {b"127.0.0.1:50000"}) == {"blpop": 1}
    assert count_requests(LOG, {b"unix:/run/x.sock"}) == {"evalsha": 1}


def test_requests_are_packed_by_bytes_not_characters() -> None:
    assert pack("SET", "ключ", 1) == b"*3\r\n$3\r\nSET\r\n$8\r\n\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87\r\n$1\r\n1\r\n"
