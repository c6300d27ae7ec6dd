# Image models: classification, and training from IDX files and directories.
case $("$WEFT" --version) in
*" png jpeg"*) ;;
*) echo "SKIP this weft is built without libpng or libjpeg" && exit 0 ;;
esac
short='s/\(\.[0-9][0-9]\)[0-9]*/\1/g' # digits that all processors agree on
cp -r "$GOLDEN/vit" "$GOLDEN/deit" "$GOLDEN/train-vit" .
cp "$GOLDEN/images/photo.png" "$GOLDEN/images/photo.jpg" "$GOLDEN/images/rgba.png" .

try "$WEFT" classify vit photo.png --top 0 | sed "$short"
try "$WEFT" classify deit photo.png --json | sed "$short"
ls ./*.png ./*.jpg >list
"$WEFT" classify vit -f list | sed "$short"
try "$WEFT" inspect vit | grep -v -e bytes -e '^memory' # whose headers differ from build to build
try "$WEFT" classify vit list
try "$WEFT" classify vit nothing.png
try "$WEFT" classify vit photo.png --truncate
try "$WEFT" classify train-vit photo.png
try "$WEFT" run vit -p photo.png
try "$WEFT" verify vit vit
try "$WEFT" convert vit vit.gguf
"$WEFT" classify vit photo.png --json >one.json && "$WEFT" classify vit.gguf photo.png --json | cmp - one.json

# Bright and dark pictures of 4 x 4, 40 of each.
printf '\0\0\10\3\0\0\0\120\0\0\0\4\0\0\0\4' >images
printf '\0\0\10\1\0\0\0\120' >labels
i=0
while [ $i -lt 40 ]; do
    printf '\310\311\312\313\314\315\316\317\320\321\322\323\324\325\326\327\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10' >>images
    printf '\1\0' >>labels
    i=$((i + 1))
done
try "$WEFT" train --data images --data labels --check-data
try "$WEFT" train --data images --check-data
small="--patch-size 2 --layers 1 --width 16 --heads 2 -b 8 --lr 1e-2 --schedule constant --warmup 1 -t 1"
# shellcheck disable=SC2086
"$WEFT" train -d images -d labels -o whole $small --shift 1 -n 20 2>/dev/null | sed -n 1p
ls whole
"$WEFT" classify whole --data images --data labels | sed -n 1p

# Ten steps, and ten more: the same bits.
# shellcheck disable=SC2086
"$WEFT" train -d images -d labels -o parts $small --shift 1 -n 10 >/dev/null 2>&1
# shellcheck disable=SC2086
"$WEFT" train -d images -d labels -o parts $small --shift 1 -n 20 --resume >/dev/null 2>&1
cmp whole/model.safetensors parts/model.safetensors && echo "the same weights"

# A directory for each class.
mkdir -p zoo/cat zoo/dog zoo/empty
for n in 1 2 3 4; do cp photo.png zoo/cat/$n.png && cp rgba.png zoo/dog/$n.png; done
echo "not a picture" >zoo/dog/readme.txt
# shellcheck disable=SC2086
"$WEFT" train -d zoo --image-size 8 -o fromzoo $small -n 20 --validation 0.25 >/dev/null 2>&1
"$WEFT" classify fromzoo photo.png | cut -f 1
"$WEFT" classify fromzoo --data zoo | sed -n 1p

# How it says no.
# shellcheck disable=SC2086
try "$WEFT" train -d images -o no $small
# shellcheck disable=SC2086
try "$WEFT" train -d labels -d images -o no $small
# shellcheck disable=SC2086
try "$WEFT" train -d zoo/cat -o no $small
head -c 100 images >short
# shellcheck disable=SC2086
try "$WEFT" train -d short -d labels -o no $small
echo "GIF89a" >zoo/dog/5.png
# shellcheck disable=SC2086
try "$WEFT" train -d zoo -o no $small
# shellcheck disable=SC2086
try "$WEFT" train -d images -d labels -o no --arch gpt2 $small
# shellcheck disable=SC2086
try "$WEFT" train -d list -o no --arch vit $small
try "$WEFT" train whole -d zoo -o no -n 1
try "$WEFT" classify whole --data zoo
try "$WEFT" classify vit photo.png --data zoo
