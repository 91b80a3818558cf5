#!/usr/bin/env python3
"""Writes a C program that calls every function of a header with wrong arguments in every state.

    torture.py include/witrpc.h >torture.c

Each function is called many times with arguments drawn for each parameter: handles that are NULL, no handle
at all, freed, closed, of another kind, and live; texts that are NULL, empty, not UTF-8, and right; numbers at
the edges; callbacks that are there or not; from outside, from inside a callback and from inside a handler. None
may crash or hang; a failure leaves no result and gives an error object, a success gives none; each destroy runs
exactly once. tests/c/torture.h holds what does not depend on the header.
"""
import os
import re
import sys

header = re.sub(r"/\*.*?\*/|//[^\n]*", "", open(sys.argv[1], encoding="utf-8").read(), flags=re.S)
body = header[header.index('extern "C"'):]
prototypes = re.findall(r"([\w ]+?[\w*] ?\**)\b(witrpc_\w+)\(([^;]*?)\);", body)
kinds = sorted(set(re.findall(r"typedef struct (witrpc_\w+) witrpc_\w+;", header)))
callbacks = {n: (r, p) for r, n, p in re.findall(r"typedef (\w+) \(\*(witrpc_\w+)\)\(([^;]*)\);", header)}
# Structs of which the caller says the size, with how they begin.
structs = {init[:-5].lower(): init for init in re.findall(r"#define (WITRPC_\w+_INIT)", header)}

# Blocking functions must not be told to wait for ever.
LIMITS = re.compile(r"timeout_ms$|^ms$|_ms$")
# What would end the other functions' ground, or the test: called on its own.
SKIP = {"witrpc_shutdown"}
# What gives an int32_t that is no status.
NO_STATUS = {"witrpc_client_state", "witrpc_error_outcome", "witrpc_loop_descriptor"}
unknown = []
# Functions that are called, in their order.
names = []


def parameters(text):
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            part = " ".join(text[start:i].split())
            start = i + 1
            if part and part != "void":
                parts.append(part)
    return parts


def emit(returns, name, params):
    before, arguments, after = [], [], []
    named = [re.match(r"(.*?)(\w+)$", p).groups() for p in parameters(params)]
    fails = returns.strip() == "int32_t" and name not in NO_STATUS
    i = 0
    while i < len(named):
        kind, param = named[i][0].replace("const ", "").replace("struct ", "").replace(" ", ""), named[i][1]
        following = named[i + 1] if i + 1 < len(named) else (None, None)
        var = f"a{i}"
        if kind == "witrpc_error**":
            before.append(f"witrpc_error *{var} = (witrpc_error *)1, **p{i} = flip() ? &{var} : NULL;")
            arguments.append(f"p{i}")
            if param == "error" and fails:
                after.append(f"if (p{i}) CHECK((status == WITRPC_OK) == ({var} == NULL));")
            after.append(f"if (p{i}) witrpc_error_free({var});")
        elif kind.endswith("**") and kind[:-2] in kinds:
            before.append(f"{kind[:-2]} *{var} = NULL, **p{i} = rarely() ? NULL : &{var};")
            arguments.append(f"p{i}")
            if fails:
                after.append(f"if (status != WITRPC_OK) CHECK({var} == NULL);")
            # A client of any options might connect for ever.
            after.append(f"{'witrpc_client_free' if kind == 'witrpc_client**' else 'keep_' + kind[:-2]}({var});")
        elif kind.endswith("*") and kind[:-1] in kinds:
            arguments.append(f"({kind})any_{kind[:-1]}()")
        elif kind.endswith("*") and kind[:-1] in structs:
            s = kind[:-1]
            before.append(f"{s} {var} = {structs[s]}; {var}.struct_size = any_struct_size(sizeof {var});")
            if s == "witrpc_client_callbacks":
                before.append(f"{var}.user_data = &tallies[{len(names)}];")
                before.append(f"{var}.destroy = count_destroy;")
                # The library can't know of a destroy that lies beyond the size it is told.
                after.append(f"if (p{i} && {var}.struct_size == sizeof {var}) expect_destroy(&tallies[{len(names)}]);")
            before.append(f"{s} *p{i} = rarely() ? NULL : &{var};")
            arguments.append(f"p{i}")
        elif kind in ("char*", "uint8_t*") and following[1] and following[1].endswith("size"):
            before.append(f"sized {var} = any_sized();")
            arguments.append(f"({'const char' if kind == 'char*' else 'const uint8_t'} *){var}.data")
            arguments.append(f"{var}.size")
            i += 1
        elif kind == "char*":
            arguments.append(f'any_text("{param}")')
        elif kind == "uint8_t*":
            before.append(f"uint8_t {var}[64] = {{ 1 }};")
            arguments.append(f"rarely() ? NULL : {var}")
        elif kind == "witrpc_bytes*":
            before.append(f"witrpc_bytes {var}[2] = {{ {{ (const uint8_t *)\"1\", 1 }}, {{ NULL, flip() ? 0 : 5 }} }};")
            arguments.append(f"rarely() ? NULL : {var}")
        elif kind == "int32_t*":
            before.append(f"int32_t {var}[4] = {{ 408, 503 }};")
            arguments.append(f"rarely() ? NULL : {var}")
            if following[1] and "count" in following[1]:
                arguments.append("(size_t)(draw() % 5)")
                i += 1
        elif kind in ("size_t*", "uint64_t*", "uint32_t*", "bool*"):
            before.append(f"{kind[:-1]} {var} = 0;")
            arguments.append(f"rarely() ? NULL : &{var}")
        elif kind in callbacks and param != "destroy":
            arguments.append(f"rarely() ? NULL : a_{kind}")
        elif param == "destroy":
            arguments.append("count_destroy")
            after.append(f"expect_destroy(&tallies[{len(names)}]);")
        elif param == "user_data":
            arguments.append(f"&tallies[{len(names)}]")
        elif kind == "size_t" and "count" in param:
            arguments.append("(size_t)(draw() % 3)")
        elif kind == "uint64_t" and LIMITS.search(param):
            arguments.append("draw() % 3")
        elif kind in ("uint64_t", "size_t", "uint32_t", "int32_t", "uint16_t"):
            arguments.append(f"({kind})any_number()")
        elif kind == "double":
            arguments.append("any_double()")
        elif kind == "bool":
            arguments.append("flip()")
        else:
            unknown.append(f"{name}: {kind} {param}")
            arguments.append("0")
        i += 1
    call = f"{name}({', '.join(arguments)})"
    print(f"static void call_{name}(void) {{")
    for line in before:
        print(f"  {line}")
    if fails:
        print(f"  int32_t status = {call};\n  CHECK(is_status(\"{name}\", status));")
    elif "witrpc_error" in returns or "witrpc_buffer" in returns:
        kind = "witrpc_error" if "witrpc_error" in returns else "witrpc_buffer"
        print(f"  keep_{kind}({call});")
    else:
        print(f"  (void){call};")
    for line in after:
        print(f"  {line}")
    print("}")


print('/* Generated by tools/torture.py from include/witrpc.h. */\n#define _GNU_SOURCE\n#include "torture.h"\n')
functions = {name for _, name, _ in prototypes}
for kind in kinds:
    if f"{kind}_free" not in functions:
        # It is only ever lent.
        print(f"static void {kind}_free({kind} *lent) {{ (void)lent; }}")
    print(f"POOL({kind})")
print()
here = os.path.dirname(os.path.abspath(__file__))
made = open(os.path.join(here, "../tests/c/torture_make.h"), encoding="utf-8").read()
print('#include "torture_make.h"\n')
for kind in kinds:
    if not re.search(rf"(MAKE\(|make_){kind}\b", made):
        print(f"static {kind} *make_{kind}(void) {{ return NULL; }}")
# Callbacks that do nothing, and keep what they are given to own.
for name, (returns, params) in callbacks.items():
    if name == "witrpc_destroy":
        continue
    named = [re.match(r"(.*?)(\w+)$", p).groups() for p in parameters(params)]
    print(f"static {returns} a_{name}({', '.join(t + n for t, n in named)}) {{")
    for kind, param in named:
        bare = kind.replace("struct ", "").replace(" ", "")
        owned = bare.endswith("*") and bare[:-1] in kinds and "const" not in kind
        print(f"  keep_{bare[:-1]}({param});" if owned else f"  (void){param};")
    print("}" if returns == "void" else "  return 0;\n}")
print(f"\nstatic tally tallies[{len(prototypes)}];\n")
for returns, name, params in prototypes:
    if name in SKIP or "(" in returns:
        continue
    emit(returns, name, params)
    names.append(name)
print("\nstatic const entry entries[] = {")
for name in names:
    print(f'  {{ "{name}", call_{name} }},')
print("};\nstatic void free_pools(void) {")
for kind in kinds:
    print(f"  drain_{kind}();")
print("}\n")
print("static void *make_any(const char *kind) {")
for kind in kinds:
    print(f'  if (strcmp(kind, "{kind}") == 0) return make_{kind}();')
print("  return NULL;\n}\nstatic const char *any_kind(void) {\n  static const char *const kinds[] = {")
print("    " + ", ".join(f'"{kind}"' for kind in kinds))
print("  };\n  return kinds[draw() % (sizeof kinds / sizeof *kinds)];\n}\n")
print("TORTURE_MAIN(entries, tallies, sizeof entries / sizeof *entries)")
if unknown:
    print("torture.py does not know what to give for: " + "; ".join(unknown), file=sys.stderr)
    sys.exit(1)
