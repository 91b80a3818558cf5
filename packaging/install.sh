#!/usr/bin/env bash
# Installs what has been built, as `make install` and `make deb` do, and in the same places as
# `cmake --install`. Builds nothing.
#   install.sh BUILT_DIR     with PREFIX (/usr/local), LIBDIR (lib, below PREFIX), DESTDIR (empty)
set -eu
built=$1
prefix=${PREFIX:-/usr/local} libdir=${LIBDIR:-lib}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -f "$built/libwitrpc.so" ] || { echo "install.sh: there is no libwitrpc.so in $built: run \`make build\` first" >&2; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
major=${version%%.*}
root=${DESTDIR:-}$prefix
put() { install -D -m "$1" "$2" "$3"; }

for header in include/witrpc.h include/witrpc.hpp include/witrpc/*.hpp; do put 644 "$header" "$root/$header"; done
lib=$root/$libdir
put 755 "$built/libwitrpc.so" "$lib/libwitrpc.so.$version"
ln -sfn "libwitrpc.so.$version" "$lib/libwitrpc.so.$major"
ln -sfn "libwitrpc.so.$major" "$lib/libwitrpc.so"
put 644 "$built/libwitrpc.a" "$lib/libwitrpc.a"
put 755 "$built/witrpc" "$root/bin/witrpc"
put 644 docs/man/witrpc.1 "$root/share/man/man1/witrpc.1"
put 644 docs/man/libwitrpc.3 "$root/share/man/man3/libwitrpc.3"

# Where the prefix lies as seen from a folder below it, so that the tree may be moved.
up() { printf '%s' "$1" | sed -E 's#[^/]+#..#g'; }
fill() { sed -e "s#@PC_PREFIX@#\${pcfiledir}/$(up "$libdir/pkgconfig")#" -e "s#@PC_LIBDIR@#$libdir#" \
  -e "s#@PC_INCLUDEDIR@#include#" -e "s#@PROJECT_VERSION@#$version#" "$1"; }
mkdir -p "$lib/pkgconfig" "$lib/cmake/witrpc"
fill packaging/witrpc.pc.in >"$lib/pkgconfig/witrpc.pc"
{
  printf '# find_package(witrpc): gives the targets witrpc::witrpc (shared) and witrpc::static.\n'
  printf 'get_filename_component(PACKAGE_PREFIX_DIR "${CMAKE_CURRENT_LIST_DIR}/%s" ABSOLUTE)\n' "$(up "$libdir/cmake/witrpc")"
  printf 'macro(set_and_check name place)\n  set(${name} "${place}")\n  if(NOT EXISTS "${place}")\n'
  printf '    message(FATAL_ERROR "witrpc: ${place} is missing")\n  endif()\nendmacro()\n'
  printf 'macro(check_required_components)\nendmacro()\n'
  sed -e '1,/@PACKAGE_INIT@/d' -e 's#@PACKAGE_CMAKE_INSTALL_INCLUDEDIR@#${PACKAGE_PREFIX_DIR}/include#' \
    -e "s#@PACKAGE_CMAKE_INSTALL_LIBDIR@#\${PACKAGE_PREFIX_DIR}/$libdir#" \
    -e "s#@witrpc_real_name@#libwitrpc.so.$version#" -e "s#@witrpc_soname@#libwitrpc.so.$major#" cmake/witrpcConfig.cmake.in
} >"$lib/cmake/witrpc/witrpcConfig.cmake"
cat >"$lib/cmake/witrpc/witrpcConfigVersion.cmake" <<END
# Before 1.0 a minor version may change an interface.
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
elseif("\${PACKAGE_FIND_VERSION_MAJOR}.\${PACKAGE_FIND_VERSION_MINOR}" STREQUAL "${version%.*}" OR NOT PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
else()
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
END
chmod 644 "$lib/pkgconfig/witrpc.pc" "$lib"/cmake/witrpc/*

git_files() { git ls-files "$@" 2>/dev/null || find "$@" -type f; }
for example in $(git_files examples/c examples/cpp); do
  mode=644
  [ -x "$example" ] && mode=755
  put $mode "$example" "$root/share/witrpc/$example"
done
for text in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/{c,cpp,named-clients,method-lines,values,endpoints,events,exactly-once,resilience,security,versions}.md; do
  put 644 "$text" "$root/share/doc/witrpc/$(basename "$text")"
done
# The reference, if it has been made (`make reference`).
if [ -d build/reference/html ]; then
  mkdir -p "$root/share/doc/witrpc/html"
  cp -R build/reference/html/. "$root/share/doc/witrpc/html/"
fi
