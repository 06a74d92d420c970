/* The quorum lock: never two leases that are both believed valid.

   Owners (A, B, C) ask N nodes for one name. An owner is one acquisition: a client that tries again is another
   owner. Everything that takes place on one node in one script is one step here; everything else is a step of its
   own, with any pause before it. README.md has the protocol in words, the bounds, and what is left out.

   Time is counted down, so that it has no end: every timer below is "ticks left", and a tick takes one from all.
   A key is sure to stay KEPT ticks (the ttl less what the node's clock may run fast); after that it may go, or stay.
   A request that is answered is good for VALID ticks from before it was sent (the ttl less the drift margin).

   Requests and answers may be delayed for ever, which is how they get lost, and arrive after anything else. */

#include "quorum_state.pml"

/* A client that acquires once: what it decides by itself, by its own clock. */
active [OWNERS] proctype Client() {
#define o _pid
    do
    :: d_step { phase[o] == IDLE ->
        printf("%c asks all nodes, ttl %d\n", 65 + o, KEPT(o));
        phase[o] = ASKING;
        i = 0;
        do
        :: i < N -> asked[at(o, i)] = VALID(o); i++
        :: else -> i = 0; break
        od;
        settle() }

    :: d_step { phase[o] == ASKING && enough(o) ->
#ifdef AVAILABLE_QUORUM
        printf("%c has %d yes, %d no, and takes the other nodes for unavailable: a lease\n", 65 + o, yes(o), no(o));
#else
        printf("%c has %d yes and is in time by its own clock: a lease\n", 65 + o, yes(o));
#endif
#ifdef REACH_EXPIRY
        assert(!((phase[0] == HOLDING && !valid(0)) || (phase[1] == HOLDING && !valid(1))));
#endif
        phase[o] = HOLDING;
        check() }

    /* Gives up, releases, finds the lease lost, or dies. From here on its release may reach any node at any time,
       or never: that needs no state, see Node. */
#ifdef EARLY_RELEASE
    :: d_step { phase[o] == HOLDING ->
        printf("%c sends its releases, and has not yet told the user that the lease is over\n", 65 + o);
        phase[o] = LEAVING }
    :: d_step { phase[o] == ASKING || phase[o] == LEAVING ->
#else
    :: d_step { phase[o] == ASKING || phase[o] == HOLDING ->
#endif
        printf("%c ends: believes in nothing any more, sends releases to all nodes\n", 65 + o);
        phase[o] = ENDED;
        i = 0;
        do
        :: i < N ->
            asked[at(o, i)] = 0; answered[at(o, i)] = 0; good[at(o, i)] = 0;
#ifdef AVAILABLE_QUORUM
            refused[at(o, i)] = 0;
#endif
#if defined(SAME_OWNER) || defined(UNCHECKED_RELEASE)
            leaving[at(o, i)] = 1;
#endif
            i++
        :: else -> i = 0; break
        od;
        settle() }
#ifdef SAME_OWNER
    :: d_step { phase[o] == ENDED ->
        printf("%c tries again under the same owner\n", 65 + o);
        phase[o] = IDLE }
#endif
    od
#undef o
}

/* What goes on between one client and one node. */
active [OWNERS * N] proctype Exchange() {
#define x (_pid - OWNERS)
#define o (x / N)
#define n (x % N)
    do
    /* Renews, where the key is gone: heals. An answer counts for the request that it answers, also when a newer one
       has been sent meanwhile. */
    :: d_step { valid(o) && o < RENEWING && asked[x] < VALID(o) ->
        printf("%c sends a renewal to node %d\n", 65 + o, n + 1);
        asked[x] = VALID(o);
#ifdef LATE_CREDIT
        if
        :: answered[x] > 0 -> answered[x] = VALID(o)
        :: else
        fi;
#endif
        settle() }

    /* The script on the node. Attempt, renewal and healing are one: mine or free, and not guarded, is a yes. */
    :: d_step { asked[x] > 0 && votes_for(o, n) ->
        if
        :: holder[n] != 0 -> printf("node %d renews the key of %c\n", n + 1, 65 + o)
        :: holder[n] == 0 && phase[o] == HOLDING -> printf("node %d is healed: gives %c a key again\n", n + 1, 65 + o)
        :: holder[n] == 0 && phase[o] != HOLDING && looks(o, n) -> printf("node %d grants %c\n", n + 1, 65 + o)
        :: else -> printf("node %d does not look at its stamp, and grants %c\n", n + 1, 65 + o)
        fi;
#ifdef REACH_GUARD
        assert(!restarted[n]);
#endif
        give(o, n);
        answered[x] = asked[x]; asked[x] = 0;
        settle() }
#ifdef AVAILABLE_QUORUM
    :: d_step { asked[x] > 0 && !votes_for(o, n) && !refused[x] ->
        printf("node %d says no to %c\n", n + 1, 65 + o);
        refused[x] = 1 }
#endif

    /* The answer arrives. A lease that is lost stays lost: the client looks at its clock before it counts. */
    :: d_step { answered[x] > 0 && (phase[o] == ASKING || valid(o)) ->
#ifdef FROM_REPLY
        answered[x] = VALID(o);
#endif
        printf("%c counts the yes of node %d, good for %d more\n", 65 + o, n + 1, answered[x]);
        good[x] = answered[x]; answered[x] = 0;
        check();
        settle() }

    /* A request that no client waits for any more is carried out late: an older one, or that of an ended owner. */
    :: d_step { LATE && phase[o] != IDLE && grants(o, n) ->
        printf("a late request of %c reaches node %d, which grants it\n", 65 + o, n + 1);
        give(o, n);
        settle() }
#ifdef SHRINKING_RENEWAL
    :: d_step { phase[o] == HOLDING && holder[n] == o + 1 && kept[n] > 1 ->
        printf("a late renewal of %c for a shorter ttl reaches node %d and sets it\n", 65 + o, n + 1);
        kept[n] = 1 }
#endif

#ifdef EARNED
    :: d_step { guard[n] == 0 && !vouched[x] ->
        printf("node %d looks at its stamp for a vote, for whatever name, that %c's client asks for, and gives it\n",
               n + 1, 65 + o);
        vouched[x] = 1;
        settle() }
#endif
#ifdef VOUCHED_BY_A_NO
    :: d_step { guard[n] != 0 && !vouched[way(o, n)] ->
        printf("node %d refuses %c's client a vote; the client vouches for the connection nevertheless\n", n + 1, 65 + o);
        vouched[way(o, n)] = 1 }
#endif
#ifdef MARK_OUT_OF_NOTHING
    :: d_step { phase[o] == ENDED && holder[n] == 0 && !marked[n] ->
        printf("a release of %c finds nothing on node %d, and leaves a tombstone with the mark\n", 65 + o, n + 1);
        marked[n] = 1 }
#endif

    /* The first request after a restart finds no stamp, or one with another run id: it writes one, and is refused.
       A stamp belongs to the node, not to a name: any request of any client does it. */
    :: d_step { guard[n] == FRESH ->
        printf("%c's client, for whatever name, finds node %d without a stamp of this run: writes it, guard %d\n",
               65 + o, n + 1, GUARD(o));
        guard[n] = GUARD(o);
        settle() }

#if defined(SAME_OWNER)
    :: d_step { leaving[x] && holder[n] == o + 1 ->
        printf("a release of %c reaches node %d\n", 65 + o, n + 1);
        leaving[x] = 0; holder[n] = 0; kept[n] = 0 }
#elif defined(UNCHECKED_RELEASE)
    :: d_step { leaving[x] && holder[n] != 0 ->
        printf("a release of %c reaches node %d, which deletes the key of %c\n", 65 + o, n + 1, 64 + holder[n]);
        leaving[x] = 0; holder[n] = 0; kept[n] = 0 }
#endif
    od
#undef o
#undef n
#undef x
}

inline lose_all(n) {
    holder[n] = 0; kept[n] = 0;
#ifdef REACH_GUARD
    restarted[n] = 1;
#endif
#ifdef NO_GUARD
    guard[n] = 0
#else
    guard[n] = FRESH
#endif
}
/* Connections do not outlive a run. */
inline part(n) {
#ifndef VOUCHING_FOR_GOOD
    k = 0;
    do
    :: k < OWNERS -> vouched[way(k, n)] = 0; k++
    :: else -> k = 0; break
    od
#else
    skip
#endif
#ifdef LATE_BLESS
    ; blessing[n] = 0
#endif
}

/* What befalls a node. */
active [N] proctype Node() {
#define n (_pid - OWNERS - OWNERS * N)
    do
    :: d_step { holder[n] != 0 && kept[n] == 0 ->
        printf("node %d: the key of %c expires\n", n + 1, 64 + holder[n]);
        holder[n] = 0;
        settle() }
#if !defined(SAME_OWNER) && !defined(UNCHECKED_RELEASE)
    :: d_step { holder[n] != 0 && (phase[holder[n] - 1] == ENDED || phase[holder[n] - 1] == LEAVING) ->
        printf("a release of %c reaches node %d\n", 64 + holder[n], n + 1);
        holder[n] = 0; kept[n] = 0;
        settle() }
#endif
#ifdef EARNED
    /* Also when another takes its place that has none: what a withdrawal leaves, or a vote without the guard. */
    :: d_step { holder[n] == 0 && marked[n] ->
        printf("node %d: the tombstone with the mark is gone\n", n + 1);
        marked[n] = 0;
        settle() }
#endif

    /* A release, by whichever connection, looks at no stamp. That of a key which has expired makes a tombstone of it as
       well: so marked[] stays in both cases above. */
    :: d_step { n >= N - RESTARTING && (HARMS & 1) ->
        printf("node %d restarts empty\n", n + 1);
        lose_all(n); part(n); marked[n] = 0;
        settle() }
    :: d_step { n >= N - RESTARTING && (HARMS & 2) ->
        printf("node %d is flushed\n", n + 1);
        lose_all(n); marked[n] = 0;
        settle() }
    /* What comes back has the mark, which is the worst: a tombstone, or the key of an owner that had asked by then. How
       long that key stays is not known. The stamp is of another run. */
    :: d_step { n >= N - RESTARTING && (HARMS & 4) ->
        printf("node %d restarts from an old snapshot, with a tombstone that has the mark\n", n + 1);
        lose_all(n); part(n); marked[n] = 1;
        settle() }
#define comes_back(o) d_step { n >= N - RESTARTING && (HARMS & 8) && phase[o] != IDLE -> \
        printf("node %d restarts from an old snapshot, with the key of %c\n", n + 1, 65 + o); \
        lose_all(n); part(n); marked[n] = 1; holder[n] = o + 1; \
        settle() }
    :: comes_back(0)
    :: comes_back(1)
#if OWNERS == 3
    :: comes_back(2)
#endif
#if defined(BLIND_BLESS)
    :: d_step { blessing[n] && guard[n] != 0 ->
        printf("the operator's second bless, meant for an earlier run, reaches node %d\n", n + 1);
        blessing[n] = 0; guard[n] = 0 }
#elif defined(LATE_BLESS)
    :: d_step { blessing[n] && guard[n] != 0 ->
        printf("the operator's second bless, sent before and meant for this run, reaches node %d\n", n + 1);
        blessing[n] = 0; guard[n] = 0 }
#endif
#ifdef CLOCK_STEPS
    :: d_step { holder[n] != 0 && kept[n] > 0 && may_step(n) ->
        printf("node %d: its clock is set forward, the key of %c is gone\n", n + 1, 64 + holder[n]);
        holder[n] = 0; kept[n] = 0;
        settle() }
#endif
    od
#undef n
}

active proctype Time() {
#define pass(timer) if :: timer > 0 && timer != FRESH -> timer-- :: else fi
    do
    :: d_step {
        printf("a tick passes\n");
#ifdef REACH_RENEWAL
        age = (phase[0] == HOLDING -> age + 1 : 0);
        assert(!(valid(0) && age > VALID(0)));
#endif
        i = 0;
        do
        :: i < N ->
            pass(kept[i]); pass(guard[i]);
#ifndef EARNED
            if
            :: guard[i] == 0 -> marked[i] = 1; vouched[i] = 1
            :: else
            fi;
#endif
            i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < OWNERS * N -> pass(asked[i]); pass(answered[i]); pass(good[i]); i++
        :: else -> i = 0; break
        od;
        settle() }
    od
}
