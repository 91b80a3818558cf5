# How the code looks, and who imports whom.
. tests/steps/lib.sh

section "Style and house"
check "cargo fmt" cargo fmt --check
check "cargo clippy" cargo clippy --workspace --all-targets --quiet -- -D warnings
check "rustdoc" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
check "the house" tools/check-house.sh
check "the comparison with WitRPC names tests that exist" tools/check-comparison.sh
# Versions format macros differently: the one that the files were written with comes first.
formatter=$(command -v clang-format-14 || command -v clang-format)
if [ -n "$formatter" ]; then
  check "clang-format" "$formatter" --dry-run -Werror examples/c/*.c examples/cpp/*.cpp tests/c/*.c tests/c/*.h \
    tests/cpp/* include/witrpc.hpp include/witrpc/*.hpp
else
  skip "clang-format" "it is not installed"
fi

finish
