# embed.cmake - writes files as C arrays: cmake -DTO=page_files.c -P embed.cmake -- FILE...
# They are put into the program as they are, so that a page needs no other file.

set(names "")
set(out "/* Made by cmake/embed.cmake. */\n#include \"explain/page.h\"\n\n")
foreach(i RANGE 1 ${CMAKE_ARGC})
  set(file "${CMAKE_ARGV${i}}")
  if(NOT file MATCHES "\\.(js|css)$")
    continue()
  endif()
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} id)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND out "static const unsigned char ${id}[] = { ${bytes} };\n")
  string(APPEND names "    { \"${name}\", ${id}, sizeof ${id} },\n")
endforeach()
string(APPEND out "\nconst page_file page_files[] = {\n${names}    { 0 },\n};\n")
file(WRITE ${TO} "${out}")
