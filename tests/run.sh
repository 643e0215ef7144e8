#!/bin/sh
# run - runs test programs side by side, shows what fails, counts their tests.
# Usage: tests/run.sh BUILD PROGRAM...    (programs speak TAP, as cmocka's do)
# A program that crashes, or is not done after $LIMIT seconds, counts as one failure.

build=$1
shift
logs=$build/test-logs
rm -rf "$logs"
mkdir -p "$logs"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export LIMIT="${LIMIT:-300}" CMOCKA_MESSAGE_OUTPUT=TAP logs scratch
# Programs share the cores: waiting threads must sleep, not spin.
export OMP_WAIT_POLICY=passive
# No copies of tokenizers outside of the tests' own folders.
export NORMGLUE_CACHE=
# No detect_stack_use_after_return: gcc 12 lays its frames out without the 64-byte
# alignment that AVX-512 locals count on (GCC bug 110027).
export ASAN_OPTIONS=allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1

printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} sh -c '
    name=$(basename {})
    log=$logs/$name
    export TMPDIR=$scratch/$name
    mkdir "$TMPDIR"
    start=$(date +%s)
    timeout -k 5 "$LIMIT" ./{} >"$log" 2>&1 </dev/null
    code=$?
    failed=$(grep -ac "^not ok [0-9]* - " "$log")
    passed=$(grep -ac "^ok [0-9]* " "$log")
    [ $code = 124 ] && echo "# not done after $LIMIT s" >>"$log"
    [ $code != 0 ] && [ "$failed" = 0 ] && failed=1
    # Reports of sanitizers may be in files that a test had its stderr redirected to.
    [ $code = 0 ] || grep -rhaE -A 8 "runtime error|Sanitizer" "$TMPDIR" >>"$log"
    echo "$passed $failed" >"$log.count"
    echo "$name: $passed passed, $failed failed, $(($(date +%s) - start)) s"
    [ "$failed" = 0 ] || grep -av "^ok " "$log" | sed "s/^/  $name: /"
    [ "$code" = 0 ] || echo "  $name: exit code $code"
    rm -rf "$TMPDIR"
    exit 0'

cat "$logs"/*.count |
    awk '{ passed += $1; failed += $2 }
         END {
             printf "%d passed, %d failed\n", passed, failed
             exit failed > 0 || !passed
         }'
