#!/bin/sh
# page-look.sh PAGE.html OUT - renders a page in headless Chromium: OUT-light.png and OUT-dark.png at 1280 px, OUT-phone.png
# at 390 px. Fails if the page's script reports an error, or asks the network for anything. HEIGHT: of the pictures (6000).
set -eu
page=$(realpath "$1")
out=$(realpath -m "$2")
height=${HEIGHT:-6000}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "page-look: no Chromium; apt install chromium" >&2
    exit 2
}
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

look() { # NAME WIDTH FLAGS...
    name=$1 width=$2
    shift 2
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$home" \
        --log-net-log="$home/net.json" --net-log-capture-mode=Default --enable-logging=stderr --v=0 \
        --disable-component-update --disable-background-networking --no-first-run --virtual-time-budget=20000 \
        --window-size="$width,$height" --screenshot="$out-$name.png" "$@" "file://$page" 2> "$home/log" || {
        cat "$home/log" >&2
        exit 1
    }
    if grep -E 'CONSOLE.*(rror|efused|ailed)' "$home/log"; then
        echo "page-look: $name: the console has errors" >&2
        exit 1
    fi
    if grep -o '"url":"https\{0,1\}://[^"]*' "$home/net.json" | grep -v -E 'google|gstatic|chrome' | grep .; then
        echo "page-look: $name: the page asks the network" >&2
        exit 1
    fi
    echo "$out-$name.png"
}

look light 1280
look dark 1280 --blink-settings=preferredColorScheme=0 --force-dark-mode
look phone 390
