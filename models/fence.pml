/* The fence agreed on by a quorum: every lease that is handed out has a larger one than all before it.

   Owners (A, B, C) ask N nodes for one name, as in quorum.pml, which shows that only one at a time has a valid lease.
   Here each yes carries a fence, and before a lease is handed out its owner makes sure that a majority knows it.
   A renewal of a key that is there changes no fence and is left out; one that makes a key anew is in: see HEALING.

   A fence counts in small steps, STEPS of them to a tick of the clock, so that counting by one never outruns time.
   The clock runs from START for TICKS ticks. Answers on their way are not stored: when a client decides it may have
   heard of any majority of the votes given so far, and it may be late for any reason. */

#include "fence_state.pml"

/* A client that acquires once. */
active [OWNERS] proctype Client() {
#define o _pid
#define ask(kind, value) d_step { (PROPOSALS & kind) && phase[o] == IDLE && may_ask(o) -> \
        say_asks(value); \
        phase[o] = ASKING; left[o] = TTL; proposal[o] = value }
    do
    /* The median of the nodes' clocks as last seen, moved on by its own; or whatever it takes for that. */
    :: ask(1, now * STEPS)
    :: ask(2, now * STEPS + 1)
    :: ask(4, now * STEPS + AHEAD)
    :: ask(8, (now + GUARD + 1) * STEPS + AHEAD)
    :: ask(16, (now - PATIENCE) * STEPS)
    :: ask(32, (now - PATIENCE - TAIL) * STEPS)
    :: ask(64, now * STEPS + SKEW)

#if defined(COUNTER_FENCES) || defined(NO_WRITE_BACK)
#define decide(n) d_step { phase[o] == ASKING && left[o] > 0 && vote[at(o, n)] > 1 && not_above(o, vote[at(o, n)]) >= MAJORITY -> \
        k = vote[at(o, n)]; hand_out(o, k) }
#else
#define agree(n) d_step { phase[o] == ASKING && left[o] > 0 && vote[at(o, n)] > 1 && agreeing(o, vote[at(o, n)]) >= MAJORITY -> \
        k = vote[at(o, n)]; hand_out(o, k) }
#define write(n) d_step { phase[o] == ASKING && left[o] > 0 && vote[at(o, n)] > 1 && \
            agreeing(o, vote[at(o, n)]) < MAJORITY && not_above(o, vote[at(o, n)]) >= MAJORITY -> \
        printf("%c has a majority that does not agree, and writes the largest, %d, back to all\n", 65 + o, vote[at(o, n)]); \
        fence[o] = vote[at(o, n)]; phase[o] = WRITING }
#define decide(n) agree(n) :: write(n)
    :: d_step { phase[o] == WRITING && knowing(o) >= MAJORITY && still_in_time(o) -> k = fence[o]; hand_out(o, k) }
#endif
    :: decide(0)
    :: decide(1)
    :: decide(2)
#if N == 5
    :: decide(3)
    :: decide(4)
#endif

    /* Gives up, releases, or dies. From here on its release may reach any node at any time, or never. */
    :: d_step { may_end(o) ->
        printf("%c ends, sends releases to all nodes\n", 65 + o);
        if
        :: phase[o] != HOLDING -> fence[o] = 0
        :: else
        fi;
        phase[o] = ENDED;
        forget_votes(o);
        settle() }
    od
#undef o
}

/* What goes on between one client and one node: two scripts. */
active [OWNERS * N] proctype Exchange() {
#define x (_pid - OWNERS)
#define o (x / N)
#define n (x % N)
    do
    /* The attempt, which may come late: then it is a grant that nobody counts. */
    :: d_step { is_on_its_way(o) && vote[x] == 0 && holder[n] == 0 && guard[n] == 0 && may_vote(o, n) ->
#ifdef NOT_AFTER_ONLY
        if
        :: in_time(o, n) -> skip
        :: else -> wild[o]++
        fi;
#endif
        holder[n] = o + 1; kept[n] = TTL; tail[n] = 0;
        count_on(n, proposal[o]);
        if
        :: phase[o] == ASKING ->
            say_grants;
            vote[x] = last[n]
        :: else ->
            printf("the late request of %c reaches node %d, which grants it with fence %d\n", 65 + o, n + 1, last[n]);
            vote[x] = 1
        fi;
        settle() }

#if HEALING
    /* A renewal that finds no key, in time or late: the same script again, which proposes the fence of the lease. It is
       no new fence, and may be as old as the lease. */
    :: d_step { phase[o] >= HOLDING && fence[o] > 0 && heals < HEALING && holder[n] == 0 && guard[n] == 0 ->
        heals++;
        holder[n] = o + 1; kept[n] = TTL; tail[n] = 0;
        count_on(n, fence[o]);
        printf("a renewal of %c makes a key on node %d, whose last fence is now %d\n", 65 + o, n + 1, last[n]);
        settle() }
#endif

    /* The write-back: the fence is kept where the owner still has the key. */
    :: d_step { phase[o] == WRITING && !known(o, n) && may_write(o, n) ->
        printf("node %d, held by %c, writes down fence %d for %c\n", n + 1, 64 + holder[n], fence[o], 65 + o);
        raise(n, fence[o]);
        written[x] = 1;
        settle() }
    od
#undef o
#undef n
#undef x
}

/* What befalls a node. */
active [N] proctype Node() {
#define n (_pid - OWNERS - OWNERS * N)
    do
    :: d_step { holder[n] != 0 && kept[n] == 0 ->
        printf("node %d: the key of %c expires\n", n + 1, 64 + holder[n]);
        holder[n] = 0; tail[n] = TAIL;
        settle() }
    :: d_step { holder[n] != 0 && phase[holder[n] - 1] == ENDED ->
        printf("a release of %c reaches node %d\n", 64 + holder[n], n + 1);
        holder[n] = 0; kept[n] = 0; tail[n] = TAIL;
        settle() }
#ifndef COUNTER_FENCES
    :: d_step { holder[n] == 0 && last[n] != 0 && tail[n] == 0 && clock(n) >= last[n] + TAIL * STEPS ->
        printf("node %d, its clock at %d, forgets the last fence, %d\n", n + 1, clock(n), last[n]);
        last[n] = 0;
        settle() }
#endif
    :: d_step { restarts < RESTARTS && guard[n] == 0 ->
        printf("node %d restarts empty\n", n + 1);
        restarts++;
        holder[n] = 0; kept[n] = 0; last[n] = 0; tail[n] = 0;
#ifndef NO_GUARD
        guard[n] = GUARD;
#endif
        settle() }
#ifdef SNAPSHOT
    :: d_step { restarts < RESTARTS && !saved && last[n] != 0 ->
        printf("node %d writes a snapshot: last fence %d\n", n + 1, last[n]);
        saved = 1; saved_last[n] = last[n]; saved_holder[n] = holder[n];
        settle() }
    /* A key that comes back may go at any time, and a fence be forgotten as soon as any; as built they stay as long as
       they would have. */
    :: d_step { restarts < RESTARTS && guard[n] == 0 && saved_last[n] != 0 ->
        printf("node %d restarts from its snapshot: last fence %d\n", n + 1, saved_last[n]);
        restarts++;
        last[n] = saved_last[n]; holder[n] = saved_holder[n]; kept[n] = 0; tail[n] = 0;
#ifndef NO_GUARD
        guard[n] = GUARD;
#endif
        saved_last[n] = 0; saved_holder[n] = 0;
        settle() }
#endif
#ifdef SET_RIGHT
    :: d_step { skew[n] > 0 ->
        printf("the clock of node %d is set right, from %d back to %d\n", n + 1, clock(n), now * STEPS);
        skew[n] = 0;
        settle() }
#endif
    od
#undef n
}

active proctype Time() {
#define pass(timer) if :: timer > 0 -> timer-- :: else fi
#if SKEW
    skew[N - 1] = SKEW;
#endif
    do
    :: d_step { now < START + TICKS ->
        now++;
        printf("a tick passes: it is %d\n", now * STEPS);
        i = 0;
        do
        :: i < N -> pass(kept[i]); pass(tail[i]); pass(guard[i]); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < OWNERS -> pass(left[i]); i++
        :: else -> i = 0; break
        od;
        settle() }
    od
}
