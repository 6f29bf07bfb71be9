# shellcheck shell=bash
# The file of a sweep's members, for submit and array.sbatch, which read this file.

# member_lines FILE: the overrides of each member, a line each; without comments and empty lines. Lines may end as on Windows.
member_lines() { tr -d '\r' <"$1" | { grep -v '^[[:space:]]*\(#.*\)\{0,1\}$' || true; }; }

# members_folder FILE: where member i has its folder i: sweep.txt in sweep, one without an extension, sweep, in sweep.runs.
members_folder() {
    if [[ ${1##*/} == ?*.* ]]; then echo "${1%.*}"; else echo "$1.runs"; fi
}
