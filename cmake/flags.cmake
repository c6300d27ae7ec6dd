# flags.cmake - what every file of weft is compiled with. -ffast-math never: it breaks NaN checks and order.

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wmissing-prototypes -Wstrict-prototypes
  -Wvla -Wformat=2 -Wimplicit-fallthrough -Wundef -Werror=format-security
  -ffp-contract=off -fno-math-errno)
if(WEFT_WERROR)
  target_compile_options(weft_flags INTERFACE -Werror)
endif()

# Sanitizer builds must not carry the hardening that hides what they look for.
if(WEFT_SANITIZE OR WEFT_FUZZ)
  set(sanitizers ${WEFT_SANITIZE})
  if(NOT sanitizers)
    set(sanitizers address,undefined)
  endif()
  target_compile_options(weft_flags INTERFACE
    -O1 -g -fno-omit-frame-pointer -fsanitize=${sanitizers} -fno-sanitize-recover=undefined)
  target_link_options(weft_flags INTERFACE -fsanitize=${sanitizers})
  if(sanitizers STREQUAL "memory")
    target_compile_options(weft_flags INTERFACE -fsanitize-memory-track-origins)
  endif()
  if(WEFT_FUZZ)
    target_compile_options(weft_flags INTERFACE -fsanitize=fuzzer-no-link)
  endif()
else()
  target_compile_options(weft_flags INTERFACE
    -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
    -fno-delete-null-pointer-checks)
  target_link_options(weft_flags INTERFACE
    -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,-z,separate-code)
endif()

if(WEFT_COVERAGE)
  target_compile_options(weft_flags INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(weft_flags INTERFACE -fprofile-instr-generate)
endif()

# Parsers are not fast, they are careful. (-ftrivial-auto-var-init came with gcc 12; clang 14 fills with a pattern.)
if(NOT WEFT_SANITIZE AND NOT WEFT_FUZZ)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(careful "-fno-strict-overflow -fno-strict-aliasing -ftrivial-auto-var-init=zero")
  else()
    set(careful "-fno-strict-overflow -fno-strict-aliasing -ftrivial-auto-var-init=pattern")
  endif()
else()
  set(careful "-fno-strict-aliasing")
endif()
if(WEFT_FUZZ AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
  string(APPEND careful " -fsanitize=integer,implicit-conversion -fno-sanitize-recover=integer,implicit-conversion")
endif()
file(GLOB parsers CONFIGURE_DEPENDS src/formats/*.c src/text/*.c src/engine/session_file.c)
set_source_files_properties(${parsers} PROPERTIES COMPILE_FLAGS "${careful}")

# Arithmetic has no branches that an input should look for, and a fuzzer that counts them is slow.
if(WEFT_FUZZ)
  file(GLOB kernels CONFIGURE_DEPENDS src/kernels/*.c src/ops/*.c)
  set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -O2 -fno-sanitize=fuzzer-no-link)
  # With sanitizers clang needs most of a minute to compile each of these; the ASan build tests them.
  file(GLOB vectors CONFIGURE_DEPENDS src/kernels/avx*.c src/kernels/int8_*.c)
  set_property(SOURCE ${vectors} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()
