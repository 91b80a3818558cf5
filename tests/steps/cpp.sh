# The C++ header, with both compilers and the standards from C++17 on.
. tests/steps/lib.sh

section "C++"
check "build the library" release
for compiler in g++ clang++; do
  command -v $compiler >/dev/null || { skip "$compiler" "it is not installed"; continue; }
  for std in c++17 c++20 c++2b; do check "the header, $compiler, $std" header $compiler $std cpp; done
  for name in values calls coroutines static memory; do
    std=c++17
    [ $name = coroutines ] && std=c++20
    check "compile $name.cpp with $compiler" $compiler -std=$std "${cc_flags[@]}" tests/cpp/$name.cpp -o "$work/$name" "${link[@]}"
    counted "$name.cpp, $compiler" "$work/$name"
  done
done
check "without exceptions" c++ -std=c++20 -fno-exceptions "${cc_flags[@]}" -fsyntax-only -x c++ include/witrpc.hpp
# clang's programs, which were built last, or gcc's.
for name in values calls coroutines; do valgrinded $name.cpp "$work/$name"; done
# It has an allocator of its own, which valgrind is not to replace.
VALGRIND_OPTS=--soname-synonyms=somalloc=nouserintercepts valgrinded memory.cpp "$work/memory"

finish
