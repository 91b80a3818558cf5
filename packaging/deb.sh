#!/usr/bin/env bash
# Makes Debian packages of what has been built: libwitrpc0 (the library), libwitrpc-dev (what programs are
# built with) and witrpc (the command). Needs dpkg-deb, and no root.
#   deb.sh BUILT_DIR OUT_DIR
set -eu
built=$1 out=$2
case $built in /*) ;; *) built=$PWD/$built ;; esac
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
major=${version%%.*}
arch=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

DESTDIR=$work/all PREFIX=/usr LIBDIR=lib/$triplet packaging/install.sh "$built"
all=$work/all/usr lib=usr/lib/$triplet
runtime=libwitrpc$major

take() { # package, paths below /
  local package=$1 path
  shift
  for path in "$@"; do
    mkdir -p "$work/$package/$(dirname "$path")"
    mv "$work/all/$path" "$work/$package/$path"
  done
}
strip --strip-unneeded "$all/lib/$triplet/libwitrpc.so.$version"
strip "$all/bin/witrpc"
strip --strip-debug "$all/lib/$triplet/libwitrpc.a"
take "$runtime" "$lib/libwitrpc.so.$version" "$lib/libwitrpc.so.$major"
take witrpc usr/bin/witrpc usr/share/man/man1/witrpc.1
take libwitrpc-dev usr/include "$lib/libwitrpc.so" "$lib/libwitrpc.a" "$lib/pkgconfig" "$lib/cmake" \
  usr/share/man/man3/libwitrpc.3 usr/share/witrpc
mv "$all/share/doc/witrpc" "$work/doc"
left=$(find "$work/all" ! -type d)
[ -z "$left" ] || { echo "deb.sh: in no package: $left" >&2; exit 1; }

# The oldest C library that has all the symbols that a file wants.
libc_of() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | cut -d_ -f2; }
finish() { # package, depends, section, one line, more lines
  local package=$1 root=$work/$1 doc=$work/$1/usr/share/doc/$1
  mkdir -p "$root/DEBIAN" "$doc"
  find "$root/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || true
  gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
  { printf 'libwitrpc is under the MIT licence or the Apache licence 2.0, at your choice.\n\n'; cat LICENSE-MIT
    printf '\nOn Debian systems the Apache licence is in /usr/share/common-licenses/Apache-2.0.\n'; } >"$doc/copyright"
  (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  cat >"$root/DEBIAN/control" <<END
Package: $package
Source: libwitrpc
Version: $version-1
Architecture: $arch
Multi-Arch: $([ "$package" = witrpc ] && echo foreign || echo same)
Maintainer: the libwitrpc maintainers <maintainers@libwitrpc.invalid>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $2
Section: $3
Priority: optional
Description: $4
$(printf '%s\n' "$5" | sed 's/^/ /')
END
  find "$root" -type d -exec chmod 755 {} +
  dpkg-deb --root-owner-group --build "$root" "$out/${package}_$version-1_$arch.deb" >/dev/null
  echo "$out/${package}_$version-1_$arch.deb"
}
mkdir -p "$work/$runtime/DEBIAN" "$work/libwitrpc-dev/usr/share/doc"
cp -R "$work/doc" "$work/libwitrpc-dev/usr/share/doc/libwitrpc-dev"
rm -f "$work/libwitrpc-dev/usr/share/doc/libwitrpc-dev/"{LICENSE-*,CHANGELOG.md}
echo "libwitrpc $major $runtime (>= $version)" >"$work/$runtime/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$work/$runtime/DEBIAN/triggers"
finish "$runtime" "libc6 (>= $(libc_of "$work/$runtime/$lib/libwitrpc.so.$version")), libgcc-s1" libs \
  "WitRPC client and server library" "RPC that speaks WitRPC's wire byte for byte and survives every outage:
reconnection, retries that never run a call twice, events."
finish libwitrpc-dev "$runtime (= $version-1)" libdevel "WitRPC client and server library: development" \
  "Headers for C and C++, the static library, CMake and pkg-config files,
examples and documentation."
finish witrpc "libc6 (>= $(libc_of "$work/witrpc/usr/bin/witrpc")), libgcc-s1" net "WitRPC from the command line" \
  "Calls, serves and listens to WitRPC services."
