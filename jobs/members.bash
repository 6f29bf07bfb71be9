# shellcheck shell=bash
# Reads the members of a sweep; sourced by submit and array.sbatch.

# member_lines FILE: the overrides of each member, one line each, without comments and empty lines. Accepts CRLF.
member_lines() { tr -d '\r' <"$1" | { grep -v '^[[:space:]]*\(#.*\)\{0,1\}$' || true; }; }

# members_folder FILE: the folder of the members' folders: sweep for sweep.txt, sweep.runs for sweep.
members_folder() {
    if [[ ${1##*/} == ?*.* ]]; then echo "${1%.*}"; else echo "$1.runs"; fi
}
