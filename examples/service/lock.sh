#!/bin/sh
# Runs a command under a lock of the lock service:  HOLDTIGHT=http://127.0.0.1:7379 TOKEN=ht_... lock.sh NAME COMMAND...
# A lease of its own, renewed in the background; the command is ended before the lease is.
set -eu
url=${HOLDTIGHT:-http://127.0.0.1:7379} name=$1
shift
request=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# The same request is sent again until it is answered: its id makes that safe, whichever instance answers.
ask() {
    curl -sS --retry 5 --retry-connrefused --retry-delay 1 --max-time 60 "$url/v1/$1" \
        -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d "$2"
}
member() { printf %s "$1" | sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }

answer=$(ask acquire "{\"name\":\"$name\",\"ttl\":\"15s\",\"wait\":\"30s\",\"request\":\"$request\"}")
lease=$(member "$answer" lease)
[ -n "$lease" ] || { printf '%s\n' "$answer" >&2; exit 75; }
FENCE=$(member "$answer" fence)
export FENCE

"$@" &
work=$!
trap 'kill "$work" 2>/dev/null || :' INT TERM
(
    # Every 5 s of the 15: two renewals may fail. One that says "lost" ends the work.
    while sleep 5; do
        answer=$(ask renew "{\"lease\":\"$lease\"}" || :)
        case $answer in *'"status":410'*) kill "$work" 2>/dev/null; exit ;; esac
    done
) &
renewer=$!
status=0
wait "$work" || status=$?
kill "$renewer" 2>/dev/null || :
ask release "{\"lease\":\"$lease\",\"again\":true}" >/dev/null
exit "$status"
