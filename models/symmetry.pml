/* Nodes are interchangeable. With SORTED they are put into one order after every step, so that the checker meets one
   arrangement out of N! that differ by name only. Runs that are to print a trace leave it off: there, node 2 stays
   node 2. The model that includes this says what swap_nodes and rank are; a rank that leaves something out costs
   states, never truth. */

inline settle() {
#ifdef SORTED
    i = 1;
    do
    :: i < N ->
        j = i;
        do
        :: j > 0 && rank((j - 1)) > rank(j) -> swap_nodes(j, (j - 1)); j--
        :: else -> break
        od;
        i++
    :: else -> break
    od;
    i = 0; j = 0; spare = 0
#else
    skip
#endif
}
