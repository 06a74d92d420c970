/* Of fence.pml: its bounds, the state, and what can be said of it. */

#ifndef N
#define N 3       /* nodes */
#endif
#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef TICKS
#define TICKS 0
#endif
#ifndef RESTARTS
#define RESTARTS 0 /* so many times a node restarts empty; with SNAPSHOT, or with what one of them has once saved */
#endif
#ifndef PROPOSALS
#define PROPOSALS 63 /* which kinds of proposal there are, see Client: a sum of 1, 2, 4, … 64 */
#endif
#ifndef LATE
#define LATE 1    /* 0: no requests that are carried out after their client has lost interest */
#endif
#ifndef HEALING
#define HEALING 0 /* so many times a renewal makes a key where there is none, in time or late */
#endif
/* IN_TURN: an owner asks when the one before it has ended. PATIENT: nobody gives up before it has a lease. */
#ifndef SKEW
#define SKEW 0    /* the clock of the last node is so many steps ahead; with SET_RIGHT, until it is set right */
#endif

#define STEPS 4
#define START 5
#define TTL 1     /* ticks for which a lease is valid, and for which a key is sure to stay */
#define PATIENCE 1 /* ticks for which a client waits for answers; never longer than the ttl */
#ifndef TAIL
#define TAIL 2    /* ticks for which a node remembers a fence after its key has ended and its clock has passed it */
#endif
#ifndef GUARD
#define GUARD 6   /* ticks: max_ttl */
#endif
/* In steps, of which a quarter of max_ttl has as many as max_ttl has ticks. */
#define AHEAD (GUARD < 2 -> GUARD : 2)  /* by which a proposal may be ahead of the node's clock */
#define BEHIND (GUARD < 6 -> GUARD : 6) /* by which a fence may be behind the clock of the node that gives it */

#define MAJORITY (N / 2 + 1)

#define IDLE    0
#define ASKING  1
#define WRITING 2  /* no majority agreed: writes the largest back */
#define HOLDING 3
#define ENDED   4
byte phase[OWNERS];
byte proposal[OWNERS];
byte left[OWNERS];   /* ticks of validity, counted from before asking */
byte fence[OWNERS];  /* what is written back; with HEALING, also that of the lease */
#ifdef NOT_AFTER_ONLY
byte wild[OWNERS];   /* so many nodes carried its request out late, see may_vote */
#endif

/* One per owner and node, at(o, n). */
byte vote[OWNERS * N];   /* 0 not yet reached, 1 carried out and of no further interest, else the node's answer */
bit written[OWNERS * N]; /* has written back */
#define at(o, n) ((o) * N + (n))

/* One per node. */
byte holder[N];   /* 0 free, else owner + 1 */
byte kept[N];     /* ticks for which the key is sure to stay */
#ifdef COUNTER_FENCES
byte last[N] = 1; /* so that all it gives are more than the 1 of vote[] */
#else
byte last[N];     /* the last fence that the node knows of; 0 none */
#endif
byte tail[N];     /* ticks for which a free node is sure to remember it */
byte guard[N];    /* ticks until the node votes again */
byte skew[N];
#ifdef SNAPSHOT
byte saved_last[N];   /* what the node has on disk; 0 nothing */
byte saved_holder[N];
bit saved;
#endif

byte now = START;
byte restarts, heals;
byte top;         /* the largest fence handed out so far, which is what the resource has seen */

byte i, j, k, spare; /* always 0 between steps */

#define clock(n) (now * STEPS + skew[n])

#define same(o, n, v) (vote[at(o, n)] == (v))
#define upto(o, n, v) (vote[at(o, n)] > 1 && vote[at(o, n)] <= (v))
#define known(o, n)   (written[at(o, n)] || same(o, n, fence[o]))
#if N == 3
#define agreeing(o, v) (same(o, 0, v) + same(o, 1, v) + same(o, 2, v))
#define not_above(o, v) (upto(o, 0, v) + upto(o, 1, v) + upto(o, 2, v))
#define knowing(o) (known(o, 0) + known(o, 1) + known(o, 2))
#elif N == 5
#define agreeing(o, v) (same(o, 0, v) + same(o, 1, v) + same(o, 2, v) + same(o, 3, v) + same(o, 4, v))
#define not_above(o, v) (upto(o, 0, v) + upto(o, 1, v) + upto(o, 2, v) + upto(o, 3, v) + upto(o, 4, v))
#define knowing(o) (known(o, 0) + known(o, 1) + known(o, 2) + known(o, 3) + known(o, 4))
#endif

#define swap(array, a, b) spare = array[a]; array[a] = array[b]; array[b] = spare
inline swap_nodes(a, b) {
    swap(holder, a, b); swap(kept, a, b); swap(last, a, b); swap(tail, a, b);
    swap(guard, a, b); swap(skew, a, b);
#ifdef SNAPSHOT
    swap(saved_last, a, b); swap(saved_holder, a, b);
#endif
    k = 0;
    do
    :: k < OWNERS ->
        swap(vote, at(k, a), at(k, b)); swap(written, at(k, a), at(k, b));
        k++
    :: else -> k = 0; break
    od
}
#ifdef SNAPSHOT
#define oddity(n) (skew[n] * 2 + (saved_last[n] > 0))
#else
#define oddity(n) skew[n]
#endif
#define rank(n) (((((oddity(n) * 4 + holder[n]) * 64 + last[n]) * 8 + guard[n]) * 64 + vote[n]) * 64 + vote[N + n])
#include "symmetry.pml"

/* Owners are alike: that they ask in the order of their names takes nothing away. */
#define before(o) phase[o - (o > 0)]
#ifdef IN_TURN
#define may_ask(o) (o == 0 || before(o) == ENDED)
#else
#define may_ask(o) (o == 0 || before(o) != IDLE)
#endif
#ifdef PATIENT
#define may_end(o) (phase[o] == HOLDING)
#else
#define may_end(o) (phase[o] != IDLE && phase[o] != ENDED)
#endif
#ifdef NO_RECHECK
#define still_in_time(o) true
#else
#define still_in_time(o) (left[o] > 0)
#endif
#ifdef ANY_FUTURE
#define believable(value, n) true
#else
#define believable(value, n) (value <= clock(n) + AHEAD)
#endif
/* A node gives no fence that is more than BEHIND behind its clock: rather it takes the request for one that is late. It
   may have forgotten fences that are older. How old the request is does not matter otherwise. */
#define is_recent(value, n) (value + BEHIND >= clock(n))
#if defined(COUNTER_FENCES) || defined(ANY_PROPOSAL) || defined(LIFTED)
#define may_vote(o, n) true
#elif defined(NOT_AFTER_ONLY)
/* A request says until when, by the node's clock, it may be carried out: the client's idea of that clock plus its
   patience. A proposal is the median of these ideas. So for a majority of the nodes the idea is no later than the
   proposal, and they refuse what is more than PATIENCE after it; the others may carry it out at any time. */
#define in_time(o, n) (clock(n) <= proposal[o] + PATIENCE * STEPS)
#define may_vote(o, n) (in_time(o, n) || wild[o] < N - MAJORITY)
#else
#define may_vote(o, n) (is_recent(proposal[o], n) || is_recent(last[n] + 1, n))
#endif
#define is_on_its_way(o) (phase[o] == ASKING || (LATE && phase[o] != IDLE))
#ifdef WRITE_BACK_UNOWNED
#define may_write(o, n) true
#else
#define may_write(o, n) (holder[n] == o + 1)
#endif

#ifdef COUNTER_FENCES
#define say_asks(value) printf("%c asks all nodes\n", 65 + o)
#define say_grants printf("node %d grants %c and counts on to %d\n", n + 1, 65 + o, last[n])
#else
#define say_asks(value) printf("%c asks all nodes and proposes %d; the time is %d\n", 65 + o, value, now * STEPS)
#define say_grants printf("node %d, its clock at %d, grants %c with fence %d\n", n + 1, clock(n), 65 + o, last[n])
#endif

inline raise(n, value) {
    if
    :: last[n] < value -> last[n] = value
    :: else
    fi
}
/* The fence of a new key: one more than the last, or what is proposed, if that is more. What is too far ahead counts as
   the node's own time. */
inline count_on(n, proposed) {
    last[n]++;
#ifndef COUNTER_FENCES
    if
    :: believable(proposed, n) -> raise(n, proposed)
    :: else -> raise(n, clock(n))
    fi
#ifdef LIFTED
    ; raise(n, clock(n) - BEHIND)
#endif
#endif
}

inline forget_votes(o) {
    i = 0;
    do
    :: i < N ->
        if
        :: vote[at(o, i)] > 1 -> vote[at(o, i)] = 1
        :: else
        fi;
        written[at(o, i)] = 0; i++
    :: else -> i = 0; break
    od;
    left[o] = 0
#if !LATE
    ; proposal[o] = 0
#ifdef NOT_AFTER_ONLY
    ; wild[o] = 0
#endif
#endif
}

/* The owner has its lease: the moment that counts. */
inline hand_out(o, value) {
    printf("%c, with %d left by its clock, has a lease with fence %d; the largest before it: %d\n",
           65 + o, left[o], value, top);
    if
    :: value <= top -> printf("WRONG: the fence has not risen\n")
    :: else
    fi;
#ifdef REACH_WRITE_BACK
    assert(!(phase[o] == WRITING && top > 0));
#endif
    phase[o] = HOLDING;
    assert(value > top);
    top = value;
    fence[o] = (HEALING > 0 -> value : 0);
    forget_votes(o);
    settle()
}
