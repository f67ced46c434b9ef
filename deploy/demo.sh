#!/usr/bin/env bash
# The demonstration: a server with the shipped models on ports of its own choice, sentences and rows of a table
# classified, words translated to their sounds, a picture drawn and recognised, a text streamed, another from a model
# whose memory does not grow, and what that moved in the metrics. The arguments are the command that is `heed`:
# ./dev demo and ./dev image call this.
set -euo pipefail

folder=$(mktemp -d)
server=
trap 'stop || :; rm -rf "$folder"' EXIT
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server"; }; }

heading() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# The address in the server's line "NAME on HOST:PORT".
address() { sed -n "s/^$1 on //p" "$folder/server.log"; }

# The metrics over HTTP, as sorted lines "NAME{LABELS} VALUE".
metrics() {
  local get="import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
  python3 -c "$get" "http://$(address metrics)/metrics" | grep -v '^#' | sort
}

heading "heed serve"
"$@" serve --address=127.0.0.1:0 --metrics_address=127.0.0.1:0 >"$folder/server.log" 2>&1 &
server=$!
for _ in {1..600}; do
  [ -z "$(address listening)" ] || break
  kill -0 "$server" 2>/dev/null || { cat "$folder/server.log"; exit 1; }
  sleep 0.1
done
cat "$folder/server.log"
to=--address=$(address listening)
"$@" health "$to"
metrics >"$folder/before"

heading "heed classify --model=polarity"
"$@" classify "$to" --model=polarity \
  "A warm, funny and beautifully acted film." \
  "The plot is a mess and the jokes fall flat." \
  "It takes its time, and every minute of it is worth having."

heading "heed classify --model=adult --csv=people.csv: who earned more than 50,000 dollars a year in 1994?"
cat >"$folder/people.csv" <<'END'
age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,capital-loss,hours-per-week,native-country
48,Private,190000,Masters,14,Married-civ-spouse,Exec-managerial,Wife,White,Female,0,0,50,United-States
19,Private,190000,11th,7,Never-married,Other-service,Own-child,White,Male,0,0,20,United-States
33,,,Bachelors,13,,Sales,,,,,,45,
END
"$@" classify "$to" --model=adult --csv="$folder/people.csv"

heading "heed generate --model=g2p --beams=4"
"$@" generate "$to" --model=g2p --beams=4 "thorough"
"$@" generate "$to" --model=g2p --beams=4 "transformer"

heading "heed generate --model=digit-drawing --png=digit.png, and another model reads what it drew"
"$@" generate "$to" --model=digit-drawing --png="$folder/digit.png" --seed=3
"$@" classify "$to" --model=digits --image="$folder/digit.png"

heading "heed generate --model=shakespeare"
"$@" generate "$to" --model=shakespeare --max_tokens=300 --seed=1 --temperature=0.7 "KING RICHARD:
"

heading "heed generate --model=shakespeare-linear, whose memory is as large after a million bytes as after a hundred"
"$@" generate "$to" --model=shakespeare-linear --max_tokens=300 --seed=1 --temperature=0.7 "KING RICHARD:
"
for model in shakespeare shakespeare-linear; do
  echo
  echo "$model"
  "$@" describe "$to" "$model" | sed -n '/^ *tokens /,$p'
done

heading "metrics that moved"
metrics >"$folder/after"
comm -13 "$folder/before" "$folder/after" |
  grep -v -E '_bucket|_seconds_sum|^process_|^exposer_|^grpc_server_(msg|started)'

stop
server=
heading "the server has stopped"
