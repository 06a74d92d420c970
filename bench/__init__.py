"""How fast holdtight is, next to its peers and to the least that could possibly work.

`python -m bench` runs every row of the table in `bench/targets.py`. A row is measured by a *drill*: a
loop that runs inside a worker process (`bench/worker.py`) on one *variant* (`bench/variants/`): holdtight,
a floor, or a peer in a virtual environment of its own. The variants of a row take turns, round by round,
so that whatever the machine does meanwhile happens to all of them; what counts is the median over the
rounds of the ratio within a round.

A full run takes about half an hour, on a machine that is doing nothing else. Its rows may also be measured in two runs
of the same commit, which make one page:

    python -m bench --only new_name peers … --json first.json      # some of the rows
    python -m bench --only quorum fleet … --json second.json       # the others
    python -m bench.growth --json growth.json                      # the curves, beside the first
    python -m bench --page first.json second.json

Nothing here is imported by the library, and a worker needs nothing but the standard library and its
own variant.
"""
