# What a run would take: hours, memory and traffic; times differ from machine to machine.
try $WEFT plan train --layers 2 --width 128 --heads 4 --hidden 512 -v 300 -c 64 -b 4 --ranks 1,2,4 --steps 10 -t 1 |
    sed -E 's/here: [0-9]+/here: N/; s/[0-9]+\.[0-9]{2} +[0-9.]+ s +[0-9.]+ s +[0-9.]+ s +[0-9.]+ s +[0-9.]+ MiB/TIMES MEMORY/'
try $WEFT plan train --layers 1 --width 64 --heads 2 --hidden 128 -v 300 -c 64 -b 4 --ranks 2 --tokens 1e6 -t 1 --json |
    sed -E 's/("[a-z_]*(seconds|second|hours)":)[0-9.e+-]+/\1N/g; s/"bytes":[0-9]+/"bytes":N/'
try $WEFT plan
try $WEFT plan run
try $WEFT plan train --ranks 3
try $WEFT plan train --ranks 1,x
try $WEFT plan train --ranks 8 --groups 4
try $WEFT plan train --bandwidth 0
try $WEFT plan train --latency -1
try $WEFT plan train --tokens -5
try $WEFT plan train --tied --untied
try $WEFT plan train --preset huge
try $WEFT plan train --arch vit
try $WEFT plan train nothing.gguf
try $WEFT plan train nothing.gguf --layers 4
try $WEFT plan train --ram-max 1M | sed "s|needs [0-9]* bytes, but [0-9]*|needs N bytes, but N|"
