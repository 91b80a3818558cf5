# What is installed, by make, by cmake and as Debian packages; and programs that know nothing else.
. tests/steps/lib.sh

section "Installing, and programs that know only the installed tree"
check "build the library" release
make_install() { make -s --no-print-directory -o build install PREFIX="$work/prefix"; }
check "make install" make_install
# The packages' consumers are tried beside those of the tree.
consumers=
if command -v dpkg-deb >/dev/null; then
  debs() { packaging/deb.sh "$target/release" "$work/debs"; }
  check "make deb" debs
  clean_root() {
    local package
    mkdir -p "$work/clean/var/lib/dpkg/"{info,updates,triggers} && touch "$work/clean/var/lib/dpkg/"{status,available} || return 1
    for package in "$work"/debs/*.deb; do dpkg-deb --info "$package" || return 1; done
    # A root with nothing in it: what the packages depend on, the C library, is the machine's.
    dpkg --root="$work/clean" --force-depends --force-not-root --force-script-chrootless --install "$work"/debs/*.deb
  }
  check "the packages install in a clean root" clean_root
  tests/install/check.sh "$work/clean/usr" "lib/$(gcc -print-multiarch)" >"$work/consumers" 2>&1 &
  consumers=$!
else
  skip "Debian packages" "dpkg-deb is not installed"
fi
counted "consumers of make install" tests/install/check.sh "$work/prefix" lib "$root" "$target/release"
of_packages() {
  wait $consumers
  local rc=$?
  cat "$work/consumers"
  return $rc
}
[ -z "$consumers" ] || counted "consumers of the packages" of_packages
if command -v cmake >/dev/null; then
  cmake_install() {
    cmake -S . -B "$work/cmake" -DWITRPC_PREBUILT_DIR="$target/release" -DCMAKE_INSTALL_PREFIX="$work/cmade" -DCMAKE_INSTALL_LIBDIR=lib &&
      cmake --build "$work/cmake" && cmake --install "$work/cmake"
  }
  check "cmake --install" cmake_install
  same_trees() { diff <(cd "$work/prefix" && find . ! -type d | sort) <(cd "$work/cmade" && find . ! -type d | sort); }
  check "cmake --install and make install give the same files" same_trees
else
  skip "cmake --install" "cmake is not installed"
fi
if command -v doxygen >/dev/null; then check "the reference, without a warning" make -s reference; else
  skip "the reference" "doxygen is not installed"
fi
# The committed report is that of the last release; before the first one there is nothing to compare with.
if [ -f tests/install/witrpc.abi ]; then
  if command -v abidiff >/dev/null; then
    abi() { abidiff --no-added-syms tests/install/witrpc.abi "$target/release/libwitrpc.so"; }
    check "the ABI is that of the last release, or more" abi
  else
    skip "the ABI report" "abidiff is not installed"
  fi
fi

finish
