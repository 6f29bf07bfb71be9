# shellcheck shell=bash
# For scripts with stages: times each stage, writes its output to a log file, and prints a summary at the end.
#   stages_begin LOG_FOLDER; stage NAME COMMAND…; stage_skip NAME REASON; stages_end
# `stage` returns the command's status; with stages_loud=yes it also prints the output.
stages_loud=${stages_loud:-no}

stages_begin() {
    stages_logs=$1
    mkdir -p "$stages_logs"
    stages_start=$(date +%s)
    stages_lines=()
    stages_failed=0
}

stage() {
    local name=$1 begin end status=0 log
    shift
    log="$stages_logs/${name//[^A-Za-z0-9]/-}.log"
    printf '== %s\n' "$name"
    begin=$(date +%s)
    if [[ $stages_loud == yes ]]; then
        { "$@" 2>&1 || echo $? >"$log.status"; } | tee "$log" # a pipeline ends when tee does
        if [[ -e $log.status ]]; then
            status=$(<"$log.status")
            rm -f "$log.status"
        fi
    else
        "$@" >"$log" 2>&1 || status=$?
    fi
    end=$(date +%s)
    if [[ $status -eq 0 ]]; then
        stages_lines+=("$(printf '%-28s %5d s  ok' "$name" $((end - begin)))")
        printf '   %d s\n' $((end - begin))
    else
        stages_lines+=("$(printf '%-28s %5d s  FAILED with status %d: %s' "$name" $((end - begin)) "$status" "$log")")
        stages_failed=$((stages_failed + 1))
        if [[ $stages_loud != yes ]]; then tail -n 60 "$log"; fi
        printf '   FAILED with status %d; full output: %s\n' "$status" "$log"
    fi
    return "$status"
}

stage_skip() {
    stages_lines+=("$(printf '%-28s         skipped: %s' "$1" "$2")")
    printf '== %s\n   skipped: %s\n' "$1" "$2"
}

# Prints the summary; fails if a stage failed.
stages_end() {
    printf '\n'
    printf '%s\n' "${stages_lines[@]}"
    printf '%-28s %5d s\n' 'total' $(($(date +%s) - stages_start))
    [[ $stages_failed -eq 0 ]]
}
