# Cache bytes per position: multi-head, grouped-query, multi-query and latent attention.
printf 'a text of a few letters\n' >text
for way in '--arch llama --heads 4' '--arch llama --heads 4 --kv-heads 2' '--arch llama --heads 4 --kv-heads 1' \
    '--arch deepseek_v3 --heads 4'; do
    # shellcheck disable=SC2086
    "$WEFT" train -d text -o run $way --width 128 --layers 2 --characters -c 8 -n 1 -b 1 -t 1 --sample 0 --validation 0 \
        >/dev/null 2>&1 || echo "-> $?"
    echo "$way"
    "$WEFT" inspect run --no-speed | grep '^cache'
    "$WEFT" inspect run --no-speed --json | grep -o '"position_bytes":{[^}]*}'
    rm -r run
done
