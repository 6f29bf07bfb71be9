# shellcheck shell=bash
# perf/gpu-check prepare --sources DIR --kokkos SOURCE [--limit MIB]: makes DIR/carried.tar.xz with
#   usr/      what jobs/packages.debian lists for build and tests and what that stands on, unpacked and made to find itself
#   kokkos/   the sources of Kokkos, without its tests
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

fail() { echo "gpu-check prepare: $1" >&2; exit "${2:-2}"; }

to='' kokkos='' limit=60
while [[ $# -gt 0 ]]; do
    case $1 in
    --kokkos | --limit)
        [[ $# -ge 2 ]] || fail "$1 takes a value"
        if [[ $1 == --kokkos ]]; then kokkos=$2; else limit=$2; fi
        shift 2 ;;
    -*) fail "no option '$1'; perf/gpu-check --help lists them" ;;
    *) [[ -z $to ]] || fail "one folder, not '$to' and '$1'"; to=$1; shift ;;
    esac
done
[[ -n $to ]] || fail 'where to? perf/gpu-check prepare --sources DIR --kokkos SOURCE'
[[ $limit =~ ^[0-9]+$ ]] || fail "--limit must be a number of MiB, not '$limit'"
[[ -e $kokkos/core/src/Kokkos_Core.hpp ]] || fail "--kokkos: '$kokkos' does not contain the sources of Kokkos"
for tool in apt-get dpkg-deb patchelf xz file; do
    command -v "$tool" >/dev/null || fail "needs $tool: apt install ${tool/apt-get/apt} (on a Debian or Ubuntu machine)"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$to" "$work/debs" "$work/carried/kokkos"
usr=$work/carried/usr

# The packages that apt would install on an empty machine.
: >"$work/none"
closure() {
    apt-get -s -qq -o Dir::State::status="$work/none" -o APT::Install-Recommends=false install "$@" |
        sed -n 's/^Inst \([^ ]*\).*/\1/p' | sort
}
# Left out: what builds on any machine have, oneDNN and the Kokkos for CPUs, and what the packages need as a desktop would.
mapfile -t wanted < <(awk '/^## /{on = $2 == "build" || $2 == "tests"; next} on{sub(/[#|].*/, ""); gsub(/[ \t]/, ""); if ($0 != "") print}' \
    "$root/jobs/packages.debian" | grep -vxE 'g\+\+|cmake|ninja-build|ca-certificates|libtrilinos-kokkos-dev|libdnnl-dev|hdf5-tools')
mapfile -t packages < <(comm -23 <(closure "${wanted[@]}") <(closure g++ dpkg perl-base bash python3-minimal) |
    grep -vE '^(adduser|autoconf|automake|autotools-dev|debconf|gfortran.*|libgfortran-.*|libpam.*|m4|ocl-.*|openssh-client|passwd|perl.*|libperl.*|libjs-.*|libhwloc-plugins|libicu.*|libxml2|libx.*6|libx11.*|libxcb1|libxnvctrl0)$')
[[ ${#packages[@]} -gt 20 ]] || fail 'apt knows too few packages: run apt-get update' 1
echo "fetching ${#packages[@]} packages"
(cd "$work/debs" && apt-get download -qq "${packages[@]}" 2>"$work/apt.log") || { cat "$work/apt.log" >&2; fail 'apt-get download failed' 1; }
for package in "$work"/debs/*.deb; do
    dpkg-deb -x "$package" "$work/carried"
done

# Links into the system's folders would be dangling.
if [[ -d $work/carried/lib ]]; then cp -a "$work/carried/lib/." "$usr/lib/"; fi
find "$work/carried" -mindepth 1 -maxdepth 1 ! -name usr ! -name kokkos -exec rm -rf {} +
rm -rf "$usr"/share/{doc,man,info,locale,lintian,bug,perl5,bash-completion,doc-base,gdb} "$usr"/sbin "$usr"/lib/*/{fortran,perl,hwloc}
rm -f "$usr"/bin/h5*cc* # CMake finds the library itself; these would name the wrong place
while IFS= read -r archive; do
    grep -rqsF --include='*.cmake' "$(basename "$archive")" "$usr/lib" "$usr/share" || rm -f "$archive"
done < <(find "$usr" -name '*.a')
while IFS= read -r link; do
    target=$(readlink "$link")
    if [[ $target == /usr/* && -e $work/carried$target ]]; then
        ln -sfnr "$work/carried$target" "$link"
    elif [[ ! -e $link ]]; then
        rm -f "$link"
    fi
done < <(find "$usr" -type l)

# Libraries, programs and pkg-config files find each other relative to their own folder.
libraries=$(cd "$usr"/lib/*-linux-gnu && pwd)
while IFS= read -r elf; do
    case $(file -b "$elf") in
    *ELF*dynamically*)
        from=$(dirname "$elf") path=''
        for folder in "$libraries" "$libraries/pmix2/lib" "$libraries/openmpi/lib"; do
            path+=${path:+:}\$ORIGIN/$(realpath -m --relative-to="$from" "$folder")
        done
        patchelf --force-rpath --set-rpath "$path" "$elf" ;;
    esac
done < <(find "$usr" -type f \( -name '*.so*' -o -path '*/bin/*' -o -path '*/libexec/*' \))
find "$libraries/pkgconfig" -name '*.pc' -type f -exec sed -i "s|=/usr|=\${pcfiledir}/../../..|" {} +

cp -a "$kokkos/." "$work/carried/kokkos/"
rm -rf "$work"/carried/kokkos/{.git,.github,doc} "$work"/carried/kokkos/*/{unit_test,unit_tests,perf_test,performance_tests}

tar -C "$work/carried" --owner=0 --group=0 -cf - . | xz -T0 -9 >"$work/carried.tar.xz"
size=$(stat -c %s "$work/carried.tar.xz")
printf '%s: %d.%d MiB, of the %d that may be carried\n' "$to/carried.tar.xz" $((size >> 20)) $(((size & 1048575) * 10 >> 20)) "$limit"
((size <= limit << 20)) || fail "larger than --limit $limit" 1
mv "$work/carried.tar.xz" "$to/carried.tar.xz"
