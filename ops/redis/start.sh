#!/bin/sh
# docker-compose.yml's Redis: write its users from the roles in users.acl and celery.acl, then become redis-server.
#
#   start.sh               write /tmp/users.acl, start Redis with it
#   start.sh --users-only  print the users, for a test
#
# BUSLOAD_QUEUE is the queue they work on, with BUSLOAD_PARTITIONS; REDIS_PASSWORD_WORKER and so on are the passwords. The
# file holds SHA-256 hashes only. REDIS_MAXMEMORY, unless it is 0, goes before redis.conf. Without Python, since Redis's image has none; make_users.py is for all other installations.
set -eu
here=$(dirname "$0")
queue=${BUSLOAD_QUEUE:-busload:default}

die() { echo "redis users: $*" >&2; exit 1; }

rules_of() { # rules_of ROLE...: their rules in one line, as Redis wants them
  for role in "$@"; do
    awk -v role="$role" '
      /^[ \t]*#/ { next }
      { first = 1 }
      $1 == "user" { within = ($2 == role); first = 3 }
      within { for (i = first; i <= NF; i++) print $i }
    ' "$here/users.acl" "$here/celery.acl"
  done | paste -s -d ' ' - | with_partitions
}

with_partitions() { # each rule on a key or a channel of the queue a second time, for the queue's partitions
  if [ "${BUSLOAD_PARTITIONS:-1}" -gt 1 ]; then
    sed -E 's/((%[RW]+)?[~&][^ ()$]*)\$QUEUE([^ ()]*)/\1$QUEUE\3 \1$QUEUE\/*\3/g'
  else
    cat
  fi
}

user() { # user NAME ROLES PASSWORD
  case $3 in *[!A-Za-z0-9_-]*) die "the password of $1: letters, digits, - and _ only, for it stands in a URL" ;; esac
  [ ${#3} -ge 16 ] || die "the password of $1 is too short: set REDIS_PASSWORD_$(echo "$1" | tr a-z A-Z) to 16 characters or more"
  rules_of $2 | awk -v name="$1" -v hash="$(printf %s "$3" | sha256sum | cut -d' ' -f1)" '
    BEGIN { queue = ENVIRON["QUEUE_PATTERN"] }
    function put(text, word, value,   at, done) {
      while (at = index(text, word)) {
        done = done substr(text, 1, at - 1) value
        text = substr(text, at + length(word))
      }
      return done text
    }
    { print "user " name " " put(put($0, "$SHA256", hash), "$QUEUE", queue) }'
}

users() {
  echo "user default $(rules_of default)"
  user worker worker "$REDIS_PASSWORD_WORKER"
  user gateway producer "$REDIS_PASSWORD_GATEWAY"
  user producer producer "$REDIS_PASSWORD_PRODUCER"
  user analyst analyst "$REDIS_PASSWORD_ANALYST"
  user celery "worker celery" "$REDIS_PASSWORD_CELERY"
  user operator operator "$REDIS_PASSWORD_OPERATOR"
}

# a name, not a pattern
QUEUE_PATTERN=$(printf %s "$queue" | sed 's/[][*?\\]/\\&/g')
export QUEUE_PATTERN
case $queue in '' | *[' {}()']*) die "BUSLOAD_QUEUE=$queue: a queue's name has no white space, and here no brackets" ;; esac

text=$(users)
[ "${1:-}" != --users-only ] || { printf '%s\n' "$text"; exit; }
umask 077
printf '%s\n' "$text" >/tmp/users.acl
case "$REDIS_PASSWORD_WORKER$REDIS_PASSWORD_OPERATOR" in
  *-development*) echo "redis users: these are the development passwords; set REDIS_PASSWORD_… in .env" >&2 ;;
esac
set -- --aclfile /tmp/users.acl
[ "${REDIS_MAXMEMORY:-0}" = 0 ] || set -- "$@" --maxmemory "$REDIS_MAXMEMORY"
exec redis-server "$here/../redis.conf" "$@"
