# Read by bash before the commands of a document, see document-walk.ts. Their script has the document's line numbers.
unset BASH_ENV
walk_line=0
walk_service=

# Before each command: the last one must have succeeded, and what the next one prints belongs to its line.
walk_mark() {
  [ "$2" = "$walk_line" ] && return
  [ "$1" = 0 ] || exit "$1"
  walk_line=$2
  printf '\n\036%s\n' "$2" >&9
}

walk_stop() {
  [ -z "$walk_service" ] && return
  kill -TERM -- "-$walk_service" 2>/dev/null || true
  wait "$walk_service" 2>/dev/null || true
  walk_service=
}

walk_started() {
  local n=0
  walk_service=$1
  echo "$1" >>"$WALK/groups"
  until curl -fs -o "$WALK/health" "http://127.0.0.1:$WALK_PORT/healthz"; do
    kill -0 "$1" 2>/dev/null && [ $((n += 1)) -lt 3000 ] || {
      cat "$WALK/service"
      echo 'The service does not answer.'
      return 1
    }
    sleep 0.1
  done
}

# Starts a service in a process group of its own, so that what npm starts ends with it. The last one is stopped first.
in_background() {
  walk_stop
  set -m
  "$@" >>"$WALK/service" 2>&1 9>&- &
  set +m
  walk_started $!
}

# The service of the clone, for documents whose readers have it: what `npm start` ends with, if all is built.
with_service() {
  pushd "$WALK_CLONE" >/dev/null
  local program=node_modules/.cache/wardline/start.mjs
  if [ -e "$program" ]; then in_background node_modules/.bin/node --conditions=wardline-source "$program" serve
  else in_background npm start; fi
  popd >/dev/null
}

# An agent that sends heartbeats and confirms what it is told, with the admin key.
with_agent() {
  WARDLINE_KEY=$(cat "$WALK_CLONE/data/admin-key") node "$WALK_AGENT" "http://127.0.0.1:$WALK_PORT" "$1" >"$WALK/$1" 2>&1 9>&- &
  local n=0
  until grep -q . "$WALK/$1" || [ $((n += 1)) -gt 1800 ]; do sleep 0.1; done
  grep -qx ready "$WALK/$1" || { cat "$WALK/$1"; return 1; }
}

# A key of scope agent for an instance, as the operator has handed it to whoever writes the agent.
with_key() {
  local admin=$(cat "$WALK_CLONE/data/admin-key")
  curl -fsS "http://127.0.0.1:$WALK_PORT/api/keys" -H "X-Monitor-Key: $admin" -H 'Content-Type: application/json' \
    -d '{"scope":"agent","name":"'"$1"'","instances":["'"$1"'"]}' | sed 's/.*"key":"//; s/".*//' >"$AGENT/key"
}

# The first id in what a command prints by --json; of the first entry with a line that holds the text, if there is one.
first_id() {
  awk -v text="${1:-\"id\":}" '/"id":/ { split($0, part, "\""); id = part[4] } index($0, text) && !found { print id; found = 1 }'
}

# Runs a command that has no end until it has printed so many lines, then presses Ctrl-C.
until_interrupted() {
  local lines=$1 n=0 status=0 pid
  shift
  : >"$WALK/live"
  set -m
  "$@" >>"$WALK/live" 2>&1 9>&- &
  pid=$!
  set +m
  echo "$pid" >>"$WALK/groups"
  until [ "$(grep -c '^[^>:]' "$WALK/live")" -ge "$lines" ] || [ $((n += 1)) -gt 1800 ]; do sleep 0.1; done
  kill -INT -- "-$pid"
  wait "$pid" || status=$?
  cat "$WALK/live"
  # 130: ended by Ctrl-C.
  [ "$n" -le 1800 ] && { [ "$status" = 0 ] || [ "$status" = 130 ]; }
}

# Runs a command at a terminal where somebody says yes.
saying_yes() {
  echo y | python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@"
}

# Stores a block of data, with pairs of a text in it and what stands for that.
walk_store() {
  local text=$(cat "$WALK/blocks/$1") path=$2
  shift 2
  while [ $# -gt 0 ]; do
    text=${text//"$1"/"$2"}
    shift 2
  done
  mkdir -p "$(dirname "$path")"
  (umask 077 && printf '%s\n' "$text" >"$path")
}

walk_code() {
  cp "$WALK/blocks/$2" .
  "$1" "$2"
}

exec 9>&1
trap 'walk_mark $? $LINENO' DEBUG
