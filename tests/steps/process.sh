# What happens to a process: fork, exit, threads, unloading; and the loop, health, names, the log.
. tests/steps/lib.sh

section "The process: fork, exit, threads, unloading; the loop, health, names, the log"
check "build the library" release
for name in embedding process scarcity; do
  check "compile $name.c" cc -std=c11 "${cc_flags[@]}" tests/c/$name.c -o "$work/$name" "${link[@]}" -ldl
  LD_LIBRARY_PATH="$target/release" counted "$name.c" "$work/$name"
done
# process.c forks amid threads, which valgrind can't follow; scarcity.c has an allocator of its own.
valgrinded embedding.c "$work/embedding"

finish
