#!/bin/sh
# deploy.sh WEFT CLIENT SOURCE - what deploy/ says about weft is true: each metric that a dashboard, an alert or an
# autoscaler names is printed by a running server, and the settings of the ConfigMap are settings.
set -u
weft=$1 client=$2 source=$3
. "$source/tests/host/say.sh"

"$weft" serve "$source/tests/golden/chat/chat.gguf" --template "$source/tests/golden/chat/template.jinja" --port 0 --no-log \
    -c 1024 -t 1 2>"$work/server" &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
at=
for _ in $(seq 1 600); do
    at=$(sed -n 's,.*listening on http://,,p' "$work/server")
    [ -n "$at" ] && "$client" get "$at" /ready >/dev/null 2>&1 && break
    sleep 0.1
done
"$client" get "$at" /metrics >"$work/metrics"

# names FILE: those of weft and vLLM that it uses, without HAProxy's and Prometheus' own.
names() { grep -o -E '\b(weft_[a-z0-9_]*[a-z0-9]|vllm:[a-z0-9_]*[a-z0-9])' "$1" | sort -u; }

every_name_is_printed() # FILE LEAST
{
    n=0
    for name in $(names "$1"); do
        grep -q "^$name[{ ]" "$work/metrics" || { echo "$1: $name is no line of /metrics"; return 1; }
        n=$((n + 1))
    done
    [ $n -ge "$2" ] || { echo "$1: $n names; expected $2 or more"; return 1; }
}

settings_are_known()
{
    awk '/^  config: \|/ { inside = 1; next } inside && !/^    / { exit } inside { print substr($0, 5) }' \
        "$source/deploy/kubernetes/serve.yaml" >"$work/config"
    WEFT_CONFIG="$work/config" "$weft" config serve >"$work/settings" || return 1
    n=$(grep -c ' = ' "$work/config")
    [ "$n" -gt 5 ] && [ "$(grep -c "$work/config:" "$work/settings")" -eq "$n" ] || { cat "$work/settings"; return 1; }
}

check "deploy: the dashboard names metrics that there are" every_name_is_printed "$source/deploy/grafana/weft.json" 15
check "deploy: the alerts name metrics that there are" every_name_is_printed "$source/deploy/prometheus/alerts.yml" 6
check "deploy: the autoscaler names a metric that there is" every_name_is_printed "$source/deploy/kubernetes/serve.yaml" 1
check "deploy: the settings of the ConfigMap are settings" settings_are_known
exit $n_failed
