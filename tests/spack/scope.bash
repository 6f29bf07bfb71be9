# shellcheck shell=bash
# Spack configuration for tests/spack/run: nothing is fetched, Debian's packages stand in for Spack's.

# What Trivium needs, as Spack calls it and as Debian does.
debian_packages='
catch2        catch2
cli11         libcli11-dev
cmake         cmake
curl          libcurl4-openssl-dev
fmt           libfmt-dev
hdf5          libhdf5-openmpi-dev      +mpi
jemalloc      libjemalloc-dev
kokkos        libtrilinos-kokkos-dev   +serial~cuda~openmp
kokkos        libkokkos-dev            +serial~cuda~openmp
ninja         ninja-build
nlohmann-json nlohmann-json3-dev
onednn        libdnnl-dev              cpu_runtime=omp
oniguruma     libonig-dev
openmpi       libopenmpi-dev
pkgconf       pkgconf
pkgconf       pkg-config
sentencepiece libsentencepiece-dev
tomlplusplus  libtomlplusplus-dev
utf8proc      libutf8proc-dev
xxhash        libxxhash-dev
zlib          zlib1g-dev
zstd          libzstd-dev
'

# debian_version PACKAGE: its upstream version; nothing where it is not installed.
debian_version() {
    local config
    case $1 in
    libtrilinos-kokkos-dev | libkokkos-dev) # the package may count Trilinos
        config=$(dpkg -L "$1" 2>/dev/null | grep '/KokkosConfigVersion.cmake$') || return 0
        sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/Ip' "$config"
        ;;
    *) dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null |
        sed -n 's/^installed \([0-9]*:\)\?\([0-9.]*[0-9]\).*/\2/p' || true ;;
    esac
}

# external NAME SPEC [MORE]: an entry of packages.yaml.
external() { printf '  %s:\n    buildable: false\n    externals:\n    - spec: "%s"\n      prefix: /usr\n%s' "$1" "$2" "${3:-}"; }

# write_externals FOLDER: what Debian has; names what is not installed.
write_externals() {
    local name package variants version written=' ' missing=' '
    mkdir -p "$1"
    echo 'packages:' >"$1/packages.yaml"
    while read -r name package variants; do
        if [[ -z $name || $written == *" $name "* ]]; then continue; fi
        version=$(debian_version "$package")
        if [[ -z $version ]]; then
            missing+="$name "
            continue
        fi
        external "$name" "$name@$version $variants" >>"$1/packages.yaml"
        missing=${missing/ $name / }
        written+="$name "
    done <<<"$debian_packages"
    if [[ $missing != ' ' ]]; then
        echo "not installed:$missing(jobs/install-packages build tests)"
        return 1
    fi
}

# write_scope FOLDER WORK MAJOR REPOSITORY…: everything but the externals. MAJOR is Spack's version.
write_scope() {
    local scope=$1 work=$2 major=$3 version languages compilers fortran
    shift 3
    version=$(gcc -dumpfullversion)
    languages='c,c++' compilers="c: $(command -v gcc), cxx: $(command -v g++)"
    if fortran=$(command -v gfortran); then # not for Trivium, but Spack's MPIs are built with it
        languages+=',fortran' compilers+=", fortran: $fortran"
    fi
    mkdir -p "$scope"
    cat >"$scope/config.yaml" <<END
config:
  install_tree: {root: $work/opt}
  build_stage: [$work/stage]
  test_stage: $work/test
  source_cache: $work/sources
  misc_cache: $work/cache
  build_jobs: ${jobs:?}
  ccache: $(if command -v ccache >/dev/null; then echo true; else echo false; fi)
END
    printf 'bootstrap:\n  enable: false\n' >"$scope/bootstrap.yaml"
    printf 'mirrors:: {}\n' >"$scope/mirrors.yaml"
    printf 'concretizer:\n  reuse: false\n' >"$scope/concretizer.yaml"
    { echo 'repos::' && printf -- '- %s\n' "$@"; } >"$scope/repos.yaml"
    if [[ $major -eq 0 ]]; then
        cat >"$scope/compilers.yaml" <<END
compilers::
- compiler:
    spec: gcc@=$version
    paths: {cc: $(command -v gcc), cxx: $(command -v g++), f77: ${fortran:-null}, fc: ${fortran:-null}}
    operating_system: $(sed -n 's/^ID=//p; s/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release | sort -r | tr -d '\n')
    target: $(uname -m)
    modules: []
END
    else
        { echo 'packages:' && external gcc "gcc@$version languages:='$languages'" \
            "      extra_attributes: {compilers: {$compilers}}"$'\n'; } >"$scope/packages.yaml"
    fi
}
