#!/bin/sh
# docs - writes docs/options.md (every command's table) and the file map of README.md.
# Usage: tests/docs.sh    (after `make`)

set -e
program=${NORMGLUE:-./normglue}

# The words behind "Subcommands:" of a command's help.
subcommands() {
    $program "$@" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'
}

write_command() {
    words=$(subcommands "$@")
    [ -n "$words" ] || { NORMGLUE_HELP=markdown $program "$@" --help; echo; return; }
    for word in $words; do (write_command "$@" "$word"); done
}

mkdir -p docs
{
    echo '# Options of every command'
    echo
    echo 'Written by `make docs` from the tables that the program itself reads.'
    echo
    write_command
} >docs/options.md

[ -f README.md ] || exit 0
map=$(mktemp)
trap 'rm -f "$map"' EXIT
for file in normglue.c */*.h; do
    case $file in tests/*) continue ;; esac
    # The first sentence of the head: "/* name - purpose."
    awk -v file="$file" '
        { sub(/^\/?[ *]+/, ""); sub(/ *\*\/$/, ""); text = text " " $0 }
        /\.$/ || /\. [A-Z]/ || NR == 4 || !NF { exit }
        END {
            sub(/^[^-]* - /, "", text)
            if (match(text, /\. [A-Z]/))
                text = substr(text, 1, RSTART)
            sub(/ +$/, "", text)
            print "- `" file "` - " text
        }' "$file"
done >"$map"
awk -v map="$map" '
    /<!-- \/files -->/ { skip = 0 }
    !skip { print }
    /<!-- files -->/ { skip = 1; while ((getline line < map) > 0) print line }
' README.md >"$map.new"
cat "$map.new" >README.md
rm -f "$map.new"
