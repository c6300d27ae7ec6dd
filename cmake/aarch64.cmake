# aarch64.cmake - builds for 64-bit Arm on another processor, with Debian's cross compiler and libraries:
#
#     dpkg --add-architecture arm64 && apt update
#     apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libjansson-dev:arm64 libpcre2-dev:arm64 \
#         libutf8proc-dev:arm64 libcmocka-dev:arm64
#
# Tests run in qemu's emulator, which finds libc where the packages of arm64 put it.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
