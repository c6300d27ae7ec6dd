#!/bin/sh
# check-hardening.sh BUILD_DIR - reads from the ELF files what the flags of cmake/flags.cmake promise. One line each.
set -u
if [ $# -ne 1 ] || [ ! -f "$1/weft" ] || [ ! -f "$1/libweft.so" ]; then
    echo "usage: check-hardening.sh BUILD_DIR (with weft and libweft.so in it)" >&2
    exit 2
fi
failed=0

# verdict FILE PROPERTY COMMAND...: the property holds if the command succeeds.
verdict()
{
    name=$(basename "$1")
    property=$2
    shift 2
    if "$@"; then
        echo "$name: $property: yes"
    else
        echo "$name: $property: NO"
        failed=1
    fi
}

is_pie() { readelf -hW "$1" | grep -q 'Type:.*DYN' && readelf -dW "$1" | grep -q 'FLAGS_1.*PIE'; }
is_shared() { readelf -hW "$1" | grep -q 'Type:.*DYN'; }
has_relro() { readelf -lW "$1" | grep -q 'GNU_RELRO'; }
binds_now() { readelf -dW "$1" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW'; }
stack_is_data() { readelf -lW "$1" | grep 'GNU_STACK' | grep -q ' RW  *0x'; }
no_text_relocations() { ! readelf -dW "$1" | grep -q 'TEXTREL'; }
no_writable_code() { ! readelf -lW "$1" | grep -q 'LOAD.* RWE '; }
has_canaries() { readelf --dyn-syms -W "$1" | grep -q '__stack_chk_fail'; }
has_fortify() { readelf --dyn-syms -W "$1" | grep -Eq '__[a-z]+_chk(@|$)'; }
no_run_path() { ! readelf -dW "$1" | grep -Eq 'RPATH|RUNPATH'; }

for file in "$1/weft" "$1/libweft.so" "$1"/comm-*.so; do
    [ -f "$file" ] || continue # a build without MPI has no modules
    case $file in
    *.so) verdict "$file" "position independent" is_shared "$file" ;;
    *) verdict "$file" "position independent (PIE)" is_pie "$file" ;;
    esac
    verdict "$file" "relocations read-only (GNU_RELRO)" has_relro "$file"
    verdict "$file" "all bound at start (BIND_NOW)" binds_now "$file"
    verdict "$file" "stack not executable (NX)" stack_is_data "$file"
    verdict "$file" "no segment writable and executable" no_writable_code "$file"
    verdict "$file" "no text relocations" no_text_relocations "$file"
    verdict "$file" "stack protector (__stack_chk_fail)" has_canaries "$file"
    verdict "$file" "checked libc calls (_FORTIFY_SOURCE)" has_fortify "$file"
    verdict "$file" "no run path" no_run_path "$file"
done
exit $failed
