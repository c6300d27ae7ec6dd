# Each shell can read its script, and bash completes commands, options, words and files from it.
"$WEFT" completions bash >weft.bash && bash -n weft.bash && echo "bash reads it"
for shell in zsh fish; do
    "$WEFT" completions $shell >weft.$shell
    if command -v $shell >/dev/null; then $shell -n weft.$shell; fi || echo "$shell: wrong"
done
"$WEFT" help | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p' >names
wc -l <names
while read -r name; do
    grep -q "^    '$name:" weft.zsh || echo "zsh: no $name"
    grep -q "use_subcommand -f -a $name -d" weft.fish || echo "fish: no $name"
    "$WEFT" help $name | sed -n 's/^.* --\([a-z-]*\).*/\1/p' | grep -v -x -e help -e version | sort -u |
        while read -r option; do
            grep -q -e "--$option" weft.zsh || echo "zsh: no --$option of $name"
            grep -q "from $name' -l $option " weft.fish || echo "fish: no --$option of $name"
        done
done <names
cat >complete.bash <<'END'
. ./weft.bash
compopt() { :; }
complete_line() # the words of a command line, the last of which is to be completed
{
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _weft
    echo "$* ->" $(printf '%s\n' "${COMPREPLY[@]}" | sort)
}
touch story.gguf story.txt
complete_line weft in
complete_line weft q
complete_line weft run --kv
complete_line weft run --kv-type b
complete_line weft run --kv-type ''
complete_line weft inspect --t
complete_line weft run st
complete_line weft run -m st
complete_line weft run -n ''
complete_line weft help tr
complete_line weft config ev
complete_line weft completions ''
complete_line weft convert --to ''
complete_line weft gronk --x
END
bash complete.bash
try "$WEFT" completions
try "$WEFT" completions tcsh

# Pages render, with every option of every command.
for name in "" run trace quantize; do
    "$WEFT" man $name >page.1
    if command -v mandoc >/dev/null; then mandoc -Tlint -Werror page.1; fi
    if command -v man >/dev/null; then MANPAGER=cat man -l page.1 2>&1 >/dev/null | grep -v terminfo; fi
done
for name in run trace bench; do
    "$WEFT" help all $name | sed -n 's/^.*\(--[a-z-]*\).*/\1/p' | grep -v help |
        while read -r option; do "$WEFT" man $name | tr -d '\\' | grep -q -e "$option" || echo "$name: no $option"; done
done
"$WEFT" man version
try "$WEFT" man gronk
