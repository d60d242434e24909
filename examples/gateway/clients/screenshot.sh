#!/bin/sh
# Takes a picture of the gateway's page with headless Chromium: screenshot.sh URL OUT.png [WIDTH,HEIGHT]
set -eu
[ $# -ge 2 ] || { echo "usage: $0 URL OUT.png [WIDTH,HEIGHT]" >&2; exit 2; }
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
"${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$profile" \
  --window-size="${3:-1280,900}" --virtual-time-budget=5000 --screenshot="$2" "$1" 2>/dev/null
[ -s "$2" ]
echo "$2"
