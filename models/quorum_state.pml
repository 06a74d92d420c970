/* Of quorum.pml: its bounds, the state, and what can be said of it. */

#ifndef N
#define N 3       /* nodes */
#endif
#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef RENEWING
#define RENEWING OWNERS  /* so many of the owners renew, from A on */
#endif
#ifndef RESTARTING
#define RESTARTING N  /* so many of the nodes may lose what they had, any number of times, from the last on */
#endif
#ifndef HARMS
#define HARMS 1   /* how: a sum of 1 an empty restart, 2 a flush, 4 and 8 a restart from a snapshot with a tombstone, a key */
#endif
#ifndef LATE
#define LATE 1    /* 0: no requests that are carried out after their client has lost interest */
#endif
#ifndef SHORT
#define SHORT 2   /* the ttl of A, in ticks */
#endif
#ifndef LONG
#define LONG 2    /* that of all others; also max_ttl, which is one for the whole quorum */
#endif

#define KEPT(o)  (o == 0 -> SHORT : LONG)
#ifdef NO_MARGIN
#define VALID(o) (KEPT(o) + 1)
#else
#define VALID(o) KEPT(o)
#endif

#if defined(SHORT_GUARD)
#define GUARD(o) (LONG - 1)
#elif defined(MIXED_MAX_TTL)
#define GUARD(o) KEPT(o)   /* each client brings the max_ttl that it has been configured with */
#else
#define GUARD(o) LONG
#endif
#define FRESH 7   /* of guard[]: the stamp is gone, or of another run, and nobody has been here since to write one */

#define MAJORITY (N / 2 + 1)

#ifdef EARNED
#define SOON 0
#define WAYS (OWNERS * N)
#define way(o, n) at(o, n)
#else
#define SOON 1
#define WAYS N
#define way(o, n) (n)     /* what the connection of one client can have, those of all have */
#endif

#define IDLE    0
#define ASKING  1
#define HOLDING 2
#define LEAVING 3 /* only with EARLY_RELEASE */
#define ENDED   4
byte phase[OWNERS];

/* One per owner and node, at(o, n). 0 is none. */
byte asked[OWNERS * N];     /* the newest request is on its way */
byte answered[OWNERS * N];  /* its yes is on its way back */
byte good[OWNERS * N];      /* its yes has been counted */
#define at(o, n) ((o) * N + (n))

/* One per node. */
byte holder[N];   /* 0 free, else owner + 1 */
byte kept[N];     /* ticks for which the key is sure to stay */
byte guard[N];    /* ticks until the node votes again */

/* The short cut, docs/decisions/0010: on top of a tombstone with the mark, a vote that a vouching connection asks for is
   given without a look at the stamp. A mark or a '+' less is a look more, so it takes nothing away to let them come too
   soon, or stay too long: other clients are at work all the time, for this name and for others, and every mark and '+'
   is there as soon as it can be. With EARNED they come and go as in the scripts. */
bit marked[N] = SOON;      /* the key, or the tombstone that it left, was made by votes that passed the guard */
bit vouched[WAYS] = SOON;  /* the guard has let a vote by this connection pass, which does not outlive the run */

#ifdef AVAILABLE_QUORUM
bit refused[OWNERS * N];
#endif
#if defined(SAME_OWNER) || defined(UNCHECKED_RELEASE)
bit leaving[OWNERS * N];    /* a release is on its way */
#endif
#if defined(BLIND_BLESS) || defined(LATE_BLESS)
bit blessing[N] = 1;        /* the operator blessed the first start; the answer was lost, this is the second try */
#endif

#ifdef REACH_GUARD
bit restarted[N];
#endif
#ifdef REACH_RENEWAL
byte age;                   /* ticks since A has its lease */
#endif

byte i, j, k, spare;  /* always 0 between steps */

#define is_good(o, n) (good[at(o, n)] > 0)
#if N == 3
#define yes(o) (is_good(o, 0) + is_good(o, 1) + is_good(o, 2))
#elif N == 5
#define yes(o) (is_good(o, 0) + is_good(o, 1) + is_good(o, 2) + is_good(o, 3) + is_good(o, 4))
#endif

/* The lease is good while a majority of nodes is: its deadline is the MAJORITY-th latest of theirs. */
#ifdef AVAILABLE_QUORUM
#define no(o) (refused[at(o, 0)] + refused[at(o, 1)] + refused[at(o, 2)])
#define enough(o) (yes(o) > 0 && yes(o) >= (yes(o) + no(o)) / 2 + 1)
#else
#define enough(o) (yes(o) >= MAJORITY)
#endif
#define valid(o) ((phase[o] == HOLDING || phase[o] == LEAVING) && enough(o))

#define both(o, p) (valid(o) && valid(p))
#if OWNERS == 2
#define two_leases both(0, 1)
#else
#define two_leases (both(0, 1) || both(0, 2) || both(1, 2))
#endif

#define swap(array, a, b) spare = array[a]; array[a] = array[b]; array[b] = spare
inline swap_nodes(a, b) {
    swap(holder, a, b); swap(kept, a, b); swap(guard, a, b); swap(marked, a, b);
#ifndef EARNED
    swap(vouched, a, b);
#endif
    k = 0;
    do
    :: k < OWNERS ->
        swap(asked, at(k, a), at(k, b)); swap(answered, at(k, a), at(k, b)); swap(good, at(k, a), at(k, b));
#ifdef EARNED
        swap(vouched, at(k, a), at(k, b));
#endif
        k++
    :: else -> k = 0; break
    od
}
#define rank_of(o, n) ((asked[at(o, n)] * 4 + answered[at(o, n)]) * 4 + good[at(o, n)])
#define rank_alone(n) (((((holder[n] * 4 + kept[n]) * 8 + guard[n]) * 2 + marked[n]) * 2 + vouched[way(0, n)]) * 2 + vouched[way(1, n)])
#if OWNERS == 2
#define rank(n) ((rank_alone(n) * 64 + rank_of(0, n)) * 64 + rank_of(1, n))
#else
#define rank(n) (((rank_alone(n) * 64 + rank_of(0, n)) * 64 + rank_of(1, n)) * 64 + rank_of(2, n))
#endif

#include "symmetry.pml"

/* A request has its '+' since it was sent, and goes by one connection: the run in which it arrives is that of the '+', or
   it does not arrive. Here it may arrive after a restart too, and has then lost it. */
#if defined(UNMARKED)
#define short_cut(o, n) (vouched[way(o, n)])
#elif defined(UNVOUCHED)
#define short_cut(o, n) (marked[n])
#else
#define short_cut(o, n) (marked[n] && vouched[way(o, n)])
#endif
#ifdef EARNED
#define looks(o, n) (!short_cut(o, n))
#else
#define looks(o, n) (guard[n] == 0)  /* said where it makes a difference only */
#endif
#define grants(o, n) (holder[n] == 0 && (guard[n] == 0 || short_cut(o, n)))
#ifdef HEAL_GUARDED
#define renews(o, n) (holder[n] == o + 1 && guard[n] == 0 || phase[o] == HOLDING && (holder[n] == 0 || holder[n] == o + 1))
#else
#define renews(o, n) (holder[n] == o + 1 && guard[n] == 0)
#endif
#define votes_for(o, n) (grants(o, n) || renews(o, n))

inline give(o, n) {
#ifdef SAME_AS_A_LOOK
    assert(guard[n] == 0);
#endif
#ifdef REACH_SHORT_CUT
    assert(!(holder[n] == 0 && short_cut(o, n)));
#endif
    holder[n] = o + 1; kept[n] = KEPT(o);
    if
    :: guard[n] == 0 -> marked[n] = 1
    :: else
    fi
}

#ifdef CLOCK_STEPS
/* That a node loses a key before its time is tolerated if a majority of the others keep it at least as long. */
#if defined(BARE_MAJORITY)
#define may_step(n) true
#elif defined(HELD_COUNT)
#define also(m, n) (m != n && holder[m] == holder[n] && kept[m] > 0)
#define may_step(n) (also(0, n) + also(1, n) + also(2, n) >= MAJORITY)
#else
#define also(m, n) (m != n && holder[m] == holder[n] && kept[m] >= kept[n])
#define may_step(n) (also(0, n) + also(1, n) + also(2, n) >= MAJORITY)
#endif
#endif

inline check() {
    if
    :: two_leases -> printf("WRONG: two leases are believed valid at the same time\n")
    :: else
    fi;
    assert(!two_leases)
}
