#!/bin/sh
# check-deploy.sh [DIR] - the files of deploy/ as the programs that will read them see them: HAProxy, Prometheus, the
# schemas of Kubernetes. Nothing is run. Ends with 1 if one is wrong, with 77 if a checker is not here.
#
# haproxy and prometheus are Debian's packages; kubernetes-validate is PyPI's, in $PATH or named by KUBERNETES_VALIDATE.
# tests/host/deploy.sh compares the names of metrics with those of a running server.
set -u
deploy=${1:-$(dirname "$0")/../deploy}
validate=${KUBERNETES_VALIDATE:-kubernetes-validate}
kubernetes=1.30
code=0 absent=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

check() # FILE COMMAND...
{
    file=$1
    shift
    if ! command -v "$1" >/dev/null 2>&1; then
        echo "NOT CHECKED $file: $1 is not here"
        absent=1
    elif "$@" >"$work/said" 2>&1; then
        echo "ok          $file: $*"
    else
        echo "WRONG       $file: $*"
        cat "$work/said"
        code=1
    fi
}

# The dashboard's expressions as rules, with values for its variables.
expressions()
{
    printf 'groups:\n- name: weft\n  rules:\n'
    sed -n 's/^ *"expr": "\(.*\)",\{0,1\}$/\1/p' "$deploy/grafana/weft.json" |
        sed 's/\\"/"/g; s/\$__rate_interval/5m/g; s/\$model/.*/g; s/\$instance/.*/g' |
        awk '{ gsub(/\047/, "\047\047"); printf "  - record: expression:%d\n    expr: \047%s\047\n", NR, $0 }'
}

check haproxy.cfg haproxy -c -q -f "$deploy/haproxy/haproxy.cfg"
check prometheus.yml promtool check config "$deploy/prometheus/prometheus.yml"
check alerts.yml promtool check rules "$deploy/prometheus/alerts.yml"
check weft.json python3 -m json.tool "$deploy/grafana/weft.json"
expressions >"$work/expressions.yml"
check "weft.json, $(grep -c record: "$work/expressions.yml") expressions" promtool check rules "$work/expressions.yml"
for file in "$deploy"/kubernetes/*.yaml; do
    check "${file##*/}" "$validate" -k $kubernetes --strict "$file"
done
[ $code -ne 0 ] || [ $absent -eq 0 ] || code=77
exit $code
