#!/bin/sh
# layers - a folder includes only folders it may see. Speaks TAP: one test a folder.

table='
base      base
tokenizer tokenizer base
encoder   encoder base
pretrain  pretrain encoder tokenizer base
finetune  finetune encoder tokenizer base
glue      glue finetune encoder tokenizer base
'

number=0
code=0
while read -r folder seen; do
    [ -n "$folder" ] || continue
    number=$((number + 1))
    allowed=$(echo "$seen" | tr ' ' '|')
    wrong=$(grep -nE '^ *# *include *"' "$folder"/*.[ch] |
        grep -vE "\"($allowed)/[^\"]*\"")
    if [ -z "$wrong" ]; then
        echo "ok $number - $folder includes only $seen"
    else
        echo "not ok $number - $folder includes only $seen"
        echo "$wrong" | sed 's/^/# /'
        code=1
    fi
done <<END
$table
END

# Rooted names only, and oneDNN behind one file.
number=$((number + 1))
wrong=$(grep -lE '^ *# *include *[<"](oneapi/dnnl/)?dnnl' ./*.c ./*/*.[ch] |
    grep -vE '^\./encoder/onednn[a-z_]*\.[ch]$|^\./tests/')
if [ -z "$wrong" ]; then
    echo "ok $number - only encoder/onednn includes dnnl.h"
else
    echo "not ok $number - only encoder/onednn includes dnnl.h"
    echo "# $wrong"
    code=1
fi
echo "1..$number"
exit $code
