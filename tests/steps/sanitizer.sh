# The C and C++ tests with address sanitizer in them. The library is as it always is: what is found are the programs' and the
# headers' own mistakes, and the library's use of the programs' memory.
. tests/steps/lib.sh

# Not process.c: it forks amid threads, and the sanitizer's allocator may be locked in the child.
section "Address sanitizer"
check "build the library" release
asan=(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
for name in calls misuse resilience encryption transports codecs tokens generics extension events encoded embedding; do
  check "compile $name.c" cc -std=c11 "${cc_flags[@]}" "${asan[@]}" tests/c/$name.c -o "$work/$name" "${link[@]}" -ldl
  LD_LIBRARY_PATH="$target/release" counted "$name.c" "$work/$name"
done
if command -v python3 >/dev/null; then
  check "compile the torture test" torture "${asan[@]}"
  counted "torture" "$work/torture"
fi
for name in values calls coroutines static; do
  check "compile $name.cpp" c++ -std=c++20 "${cc_flags[@]}" "${asan[@]}" tests/cpp/$name.cpp -o "$work/$name" "${link[@]}"
  counted "$name.cpp" "$work/$name"
done

finish
