#!/bin/sh
# layers.sh SOURCE - shows that tools/check-layers.sh can fail: it finds each kind of breach in a small tree, and none in the
# same tree without it.
set -u
source=$1
. "$source/tests/host/say.sh"

# tree: a small tree that keeps the law.
tree()
{
    rm -rf "$work/tree"
    for room in base kernels tensor ops models formats text engine train dist api text/unicode text/regex text/sources text/train dist/mpi; do
        mkdir -p "$work/tree/src/$room"
        echo "/* $room */" >"$work/tree/src/$room/${room##*/}.h"
    done
    mkdir "$work/tree/cli"
    echo '#include <weft.h>' >"$work/tree/cli/cli.h"
    printf '#include "cli.h"\n#include <stdio.h>\n' >"$work/tree/cli/main.c"
    echo '#include "engine/engine.h"' >"$work/tree/src/api/a.c"
    printf '/* x->data is read by ops\n * #include "engine/engine.h" */\n#include "ops/ops.h"\n' >"$work/tree/src/models/m.c"
    printf '#include "weft.h"\n#include "tensor/tensor.h"\n' >"$work/tree/src/formats/f.c"
}

# breach SENTENCE FILE LINE PATTERN: after LINE is added to FILE, it is reported at that place with PATTERN.
breach()
{
    tree
    echo "$3" >>"$work/tree/$2"
    at=$2:$(wc -l <"$work/tree/$2")
    reports() { ! "$source/tools/check-layers.sh" "$work/tree" >"$work/report" && cat "$work/report" && grep -q "^$at: .*$1" "$work/report"; }
    check "layers: $1" reports "$4"
}

tree
check "layers: a tree that keeps the law passes" "$source/tools/check-layers.sh" "$work/tree"
breach "base may not look up" src/base/b.c '#include "tensor/tensor.h"' 'base may not see tensor'
breach "kernels may not look up" src/kernels/k.c '#include "tensor/tensor.h"' 'kernels may not see tensor'
breach "ops may not see models" src/ops/o.c '#include "models/models.h"' 'ops may not see models'
breach "ops may not see formats" src/ops/o.c '  #  include "formats/formats.h"' 'ops may not see formats'
breach "formats see kernels only through tensor" src/formats/f.c '#include "kernels/kernels.h"' 'formats may not see kernels'
breach "formats may not see text" src/formats/f.c '#include "text/text.h"' 'formats may not see text'
breach "inside text, regex may not look up" src/text/regex/r.c '#include "text/text.h"' 'text/regex may not see text '
breach "inside text, train may not see sources" src/text/train/t.c '#include "text/sources/sources.h"' 'may not see text/sources'
breach "engine may not see train" src/engine/e.c '#include "train/train.h"' 'engine may not see train'
breach "train may not see engine" src/train/t.c '#include "engine/engine.h"' 'train may not see engine'
breach "only train and api see dist" src/engine/e.c '#include "dist/dist.h"' 'engine may not see dist'
breach "only src/dist/mpi includes mpi.h" src/dist/d.c '#include <mpi.h>' 'mpi.h'
breach "dist/mpi may not see dist" src/dist/mpi/m.c '#include "dist/dist.h"' 'may not see dist '
breach "nobody sees api" src/engine/e.c '#include "api/api.h"' 'engine may not see api'
breach "cli sees no internal header" cli/main.c '#include "base/base.h"' 'cli sees only'
breach "a missing header is named" src/ops/o.c '#include "ops/gone.h"' 'is no header'
breach "only kernels/dnnl.c includes dnnl" src/ops/o.c '#include <oneapi/dnnl/dnnl.h>' 'dnnl'
breach "a model file never touches data" src/models/m.c 'float y = x->data[0];' 'never touches data'
breach "headers go in no circle" src/base/base.h '#include "base/base.h"' 'circle'

tree
echo '#include "base/a.h"' >"$work/tree/src/base/base.h"
echo '#include "base/b.h"' >"$work/tree/src/base/a.h"
echo '#include "base/base.h"' >"$work/tree/src/base/b.h"
circle() { ! "$source/tools/check-layers.sh" "$work/tree" >"$work/report" && grep -q 'circle: .*a.h.*b.h' "$work/report"; }
check "layers: a circle of three headers is found" circle
check "layers: this tree keeps the law" "$source/tools/check-layers.sh" "$source"
exit $n_failed
