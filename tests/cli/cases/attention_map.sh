# The picture of where a token looked has the mean over heads and layers. What it should be, at the last position of the
# golden texts, is computed from the probabilities that transformers has there (dec.blk.*.cross_attention.probs in
# golden/MODEL/trace.safetensors); pictures have three digits.
near()
{
    model=$1 source=$2 begin=$3 want=$4
    shift 4
    "$WEFT" translate "$GOLDEN/$model" --ids "$source" --begin "$begin" -n 1 --attention map.svg "$@" >text || exit 1
    sed -n 's/.* looks at [0-9]*: \([0-9.]*\)<.*/\1/p' map.svg | awk -v want="$want" -v name="$model $*" '
        BEGIN { n = split(want, w, " ") }
        { d = $1 - w[NR]; d = d < 0 ? -d : d; worst = d > worst ? d : worst }
        END { print name ": " NR " of " n " cells, " (worst < 0.001 ? "as in transformers" : "off by " worst) }'
}
source=63,47,56,23,3,54,10,14,41,47,41,48,22,15,5,57,5,20,11
begin=35,41,29,32,58,52,53,55,59,39,35,26,28
near t5 $source $begin "0.0384 0.0382 0.0624 0.0825 0.1654 0.0682 0.0559 0.0557 0.0370 0.0603 0.0323 0.0339 0.0371 0.0337 0.0286 0.0309 0.0296 0.0650 0.0449"
near t5 $source $begin "0.0535 0.0241 0.0530 0.0771 0.2612 0.0418 0.0069 0.0634 0.0352 0.0192 0.0259 0.0143 0.0289 0.0425 0.0466 0.0230 0.0493 0.0846 0.0494" --attention-layer 2
near m2m 51,39,32,56,38,40,12,36,41,42,14,11,35,51,17,6,28,13,33 52,7,17,54,36,33,32,22,47,16,43,14,29 "0.0445 0.0459 0.0310 0.0777 0.0511 0.0872 0.0403 0.0371 0.0433 0.0350 0.0559 0.0401 0.0590 0.0458 0.0341 0.0923 0.0383 0.0790 0.0624"
