#!/bin/sh
# Make a backup the data of a Redis that keeps a log (appendonly yes): such a Redis does not look at a dump.rdb that lies
# in its folder, and would start empty. docs/upgrade.md tells when to use it.
#
#   ops/redis/restore.sh BACKUP.rdb FOLDER
#
# FOLDER is the `dir` of a Redis that is stopped. What it holds is moved aside, into FOLDER/before-restore-DATE. Needs
# redis-server and redis-cli, of the version that is to run there or an older one. It listens on a socket in FOLDER only,
# and ends when the log is written. Run it as Redis's own user.
set -eu

backup=${1:?usage: restore.sh BACKUP.rdb FOLDER}
folder=${2:?usage: restore.sh BACKUP.rdb FOLDER}
socket=$folder/restore.sock

die() { echo "restore: $*" >&2; exit 1; }
ask() { redis-cli -s "$socket" "$@" 2>/dev/null; }
lives() { kill -0 "$server" 2>/dev/null; }

[ "$(head -c 5 "$backup")" = REDIS ] || die "$backup is no RDB file"
aside=$folder/before-restore-$(date +%Y%m%dT%H%M%S)
for old in "$folder/dump.rdb" "$folder/appendonly.aof" "$folder/appendonlydir"; do
  [ -e "$old" ] || continue
  mkdir -p "$aside"
  mv "$old" "$aside/"
  echo "restore: $old is in $aside now"
done

leave() {
  if [ -n "$server" ]; then kill -9 "$server" 2>/dev/null || true; fi
  rm -f "$folder/dump.rdb" "$socket" "$folder/restore.log" "$folder/restore.pid"
  [ -n "$done" ] || rm -rf "$folder/appendonlydir" "$folder/appendonly.aof" # what we began, for there was none before
}
server='' done=''
trap leave EXIT

cp "$backup" "$folder/dump.rdb"
redis-server --dir "$folder" --dbfilename dump.rdb --appendonly no --save '' --port 0 --unixsocket "$socket" \
  --unixsocketperm 700 --logfile "$folder/restore.log" --pidfile "$folder/restore.pid" &
server=$!
until [ "$(ask PING)" = PONG ]; do
  lives || { cat "$folder/restore.log" >&2; die "Redis cannot read it"; }
  sleep 0.2
done
keys=$(ask DBSIZE)
[ "$(ask CONFIG SET appendonly yes)" = OK ] || die "the log could not be begun: may $folder be written to?"
while ask INFO persistence | grep -qE '^aof_rewrite_(in_progress|scheduled):1'; do sleep 0.2; done
ask INFO persistence | grep -q '^aof_last_bgrewrite_status:ok' || {
  cat "$folder/restore.log" >&2
  die "the log could not be written: is the disk full?"
}
ask SHUTDOWN NOSAVE || true
wait "$server" || true
server='' done=yes
echo "restored $keys keys: start Redis, then the workers"
