#!/bin/sh
# style - format, sizes of functions and files, names, direction of includes.
# Prints a line a finding, then the measures; fails if there was a finding.

export LC_ALL=C.UTF-8
found=$(mktemp)
functions=$(mktemp)
seen=$(mktemp)
trap 'rm -f "$found" "$functions" "$seen"' EXIT
sources=$(ls ./*.c ./*/*.[ch] | sed 's|^\./||')
scripts=$(ls Makefile .ci/* ./*/*.sh | sed 's|^\./||')

clang-format --dry-run $sources 2>&1 | grep -oE '^[^: ]+:[0-9]+:[0-9]+: warning' |
    cut -d: -f1,2 | sort -u -t: -k1,1 |
    sed 's/$/: not as clang-format has it (first place)/' >>"$found"

sh tests/layers.sh | grep -vE '^ok|^1\.\.' | sed 's/^# //' >>"$found"

# Tables that a script wrote are no reading matter: no limit of lines.
awk '
    FNR == 1 { is_generated = tolower($0) ~ /generated|made by/ }
    FNR == 501 && !is_generated { print FILENAME ": more than 500 lines" }
    length($0) > 90 && !is_generated { print FILENAME ":" FNR ": " length($0) " columns" }
    /TO[D]O|FIX[M]E/ { print FILENAME ":" FNR ": unfinished: " $0 }
' $sources $scripts >>"$found"

awk 'FNR == 1 {
    n = split(FILENAME, part, /[\/.]/)
    name = part[n - 1]
    if ($0 !~ "^/\\* " name " - ")
        print FILENAME ":1: expected \"/* " name " - purpose.\""
}' $sources >>"$found"

ctags -x --c-kinds=f --fields=+e --_xformat='%{input} %{line} %{end} %{name}' \
    $sources >"$functions"
awk '{
    lines = $3 - $2 + 1
    if (lines > 60)
        print $1 ":" $2 ": " $4 " has " lines " lines, at most 60"
}' "$functions" >>"$found"

# A function that other files see begins with its file (file_reader.c: file_, reader_),
# with the struct of a header that it is about, or (commands) with its folder.
for object in build/*/*.o; do
    case $object in build/tests/* | build/san/* | build/coverage/*) continue ;; esac
    nm -g --defined-only --format=posix "$object" | awk -v o="$object" '$2 == "T" {
        sub(/^build\//, "", o)
        sub(/\.o$/, ".c", o)
        print o, $1
    }'
done >"$seen"
sed -nE 's|^struct ([a-z0-9_]+) *[{;].*|\1|p' ./*/*.h | sort -u |
    awk 'NR == FNR { structs[$1] = 1; next }
    $2 ~ /\./ { next }
    {
        split($1, path, "/")
        stem = path[2]
        sub(/\.c$/, "", stem)
        ok = index($2, path[1] "_") == 1 || index($2, stem) == 1
        words = split(stem, word, "_")
        for (i = 1; i <= words; i++)
            ok = ok || $2 == word[i] || index($2, word[i] "_") == 1
        for (name in structs)
            ok = ok || index($2, name "_") == 1
        if (!ok)
            print $1 ": " $2 " does not begin with the name of its file"
    }' - "$seen" >>"$found"

sort -u "$found"
awk '$1 !~ /^tests\// { print $3 - $2 + 1 }' "$functions" | sort -n | awk '
    { lines[NR] = $1 }
    END { printf "functions: %d, lines: median %d, p90 %d, most %d\n", NR,
          lines[int((NR + 1) / 2)], lines[int(NR * 0.9 + 0.5)], lines[NR] }'
awk '
    FNR == 1 { is_generated = tolower($0) ~ /generated|made by/ }
    is_generated || !NF { next }
    /^ *\/\*/ { is_comment = 1 }
    { lines++; comments += is_comment || /\/\*.*\*\// }
    /\*\// { is_comment = 0 }
    END { printf "lines of code and comment: %d, %.0f %% with comments\n", lines,
          100 * comments / lines }' $(echo "$sources" | grep -v '^tests/')
[ ! -s "$found" ]
