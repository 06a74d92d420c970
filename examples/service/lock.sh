#!/bin/sh
# Runs a command under a lock of the lock service:  HOLDTIGHT=http://127.0.0.1:7379 TOKEN=ht_... lock.sh NAME COMMAND...
# A session with beats in the background. The command is ended before the lock can be somebody else's. Needs curl and awk.
set -eu
url=${HOLDTIGHT:-http://127.0.0.1:7379} name=$1 ttl=15
shift

json() { printf %s "$1" | sed 's/[\\"]/\\&/g'; }
member() { printf %s "$1" | sed -n "s/^[^[]*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
# The same request is sent again until it is answered: the request id makes that safe, whichever instance answers. The last
# line says how long ago it was sent.
ask() {
    curl -sS --retry 9 --retry-all-errors --retry-delay 1 --max-time "${3:-60}" -w '\n%{time_total}' "$url/v1/$1" \
        -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d "$2"
}
# How long the lock is surely ours from now on: `valid` counts from the moment of sending. A second less, as a shell is slow.
left() { awk -v valid="$(member "$1" valid)" -v ago="$(printf %s "$1" | tail -n 1)" 'BEGIN { print valid - ago - 1 }'; }

answer=$(ask session/open "{\"ttl\":$ttl,\"label\":\"lock.sh\",\"host\":\"$(json "$(uname -n)")\",\"pid\":$$}")
session=$(member "$answer" session)
[ -n "$session" ] || { printf '%s\n' "$answer" >&2; exit 69; }
end() { ask session/close "{\"session\":\"$session\"}" >/dev/null || :; }

request=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
answer=$(ask acquire "{\"name\":\"$(json "$name")\",\"session\":\"$session\",\"wait\":\"30s\",\"request\":\"$request\"}")
lease=$(member "$answer" lease)
[ -n "$lease" ] || { printf '%s\n' "$answer" >&2; end; exit 75; }
FENCE=$(member "$answer" fence)
export FENCE

"$@" &
work=$!

beats() {
    trap 'kill "$dog" "$nap" 2>/dev/null; exit' TERM
    while :; do
        (sleep "$(left "$answer")" && kill "$work") &
        dog=$!
        while :; do
            sleep $((ttl / 3)) & nap=$!
            wait "$nap"
            answer=$(ask session/beat "{\"session\":\"$session\"}" 3) || continue # the dog stays: it knows the deadline
            kept=${answer%%\"lost\":*}
            case $kept in
            *"$lease"*) break ;;
            *'"leases":'*) ;; # lost, or not known: the deadline stays
            *'"status":410'*) kill "$work"; exit ;;
            esac
            case $answer in *'"unknown":[]'*) kill "$work"; exit ;; esac
        done
        kill "$dog" 2>/dev/null || :
    done
}
beats >/dev/null 2>&1 &
heart=$!
trap 'kill "$work" 2>/dev/null || :' INT TERM
status=0
wait "$work" || status=$?
kill "$heart" 2>/dev/null || :
end
exit "$status"
