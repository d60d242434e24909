#!/bin/sh
# Talks to a gateway with curl: curl.sh BASE_URL [MODEL [INTERNAL_URL]]. Prints a line for each check, stops at the first that fails.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 BASE_URL [MODEL [INTERNAL_URL]]" >&2; exit 2; }
base=${1%/}; model=${2:-sim}; internal=${3:-$base}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Asks; the status is in $status, the answer in $work/body, its headers and trailers in $work/head.
ask() {
  status=$(curl -sS -N --max-time 30 -D "$work/head" -o "$work/body" -w '%{http_code}' "$@")
}
# check NAME STATUS [PATTERN [FILE]]: the last answer has this status and a line like this.
check() {
  if [ "$status" != "$2" ] || { [ -n "${3:-}" ] && ! grep -Eiq -- "$3" "$work/${4:-body}"; }; then
    echo "FAILED  $1: status $status, wanted $2 and /${3:-}/ in the ${4:-body}:" >&2
    cat "$work/head" "$work/body" >&2
    exit 1
  fi
  echo "ok  $1"
}
post() { path=$1; body=$2; shift 2; ask -H 'content-type: application/json' -d "$body" "$@" "$base$path"; }

ask "$base/v1/models"
check "models" 200 "\"id\": *\"$model\""

chat="\"model\":\"$model\",\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"Say a few words.\"}]"
post /v1/chat/completions "{$chat}"
check "chat, whole" 200 '"content": *"[^"]'
check "chat, its usage" 200 '"total_tokens": *[1-9]'
post /v1/chat/completions "{$chat,\"stream\":true}"
check "chat, streamed" 200 '^content-type: text/event-stream' head
check "chat, its chunks" 200 '^data: \{.*"content": *"[^"]'
check "chat, its end" 200 '^data: \[DONE\]'

text="\"model\":\"$model\",\"max_tokens\":8,\"prompt\":\"Once upon a time\""
post /v1/completions "{$text}"
check "completion, whole" 200 '"text": *"[^"]'
post /v1/completions "{$text,\"stream\":true}"
check "completion, streamed" 200 '^data: \{.*"text": *"[^"]'
check "completion, its end" 200 '^data: \[DONE\]'

post /v1/chat/completions "{$chat}" -H 'x-pointsman-explain: 1'
check "the decision, explained" 200 '^x-pointsman-trace: *[^ ]' head
post /v1/completions '{"model":"no-such-model","prompt":"x"}'
check "an unknown model" 404 '"error"'
post /v1/chat/completions "{\"model\":\"$model\",\"messages\":\"no list\"}"
check "a request that makes no sense" 400 '"error"'
post /v1/chat/completions '{"model":'
check "a body that is no JSON" 400 '"error"'

ask "$base/health"
check "health" 200
ask "$internal/metrics"
check "metrics" 200 '^# TYPE '
ask "$internal/state"
check "state" 200 '"pods"'
ask "$internal/"
check "the page" 200 '<title>'
ask -X POST -H 'authorization: Bearer wrong' -H 'content-type: application/json' -d '{}' "$internal/internal/events"
check "a wrong token" 401
