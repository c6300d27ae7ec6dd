# page.cmake - writes the server's page and its Content-Security-Policy as C: cmake -DFROM=page.html -DTO=page.c -P page.cmake
# The policy names the hash of the page's script and of its style sheet, so that nothing else in it may run.

file(READ "${FROM}" text)

# hash_of(VARIABLE ELEMENT): SHA-256 of what is between <ELEMENT> and </ELEMENT>, in base64.
function(hash_of variable element)
  string(FIND "${text}" "<${element}>" from)
  string(FIND "${text}" "</${element}>" to)
  if(from LESS 0 OR to LESS 0)
    message(FATAL_ERROR "${FROM}: no <${element}>")
  endif()
  string(LENGTH "<${element}>" n)
  math(EXPR from "${from} + ${n}")
  math(EXPR n "${to} - ${from}")
  string(SUBSTRING "${text}" ${from} ${n} inner)
  string(SHA256 hex "${inner}")
  # Three digits of base 16 are two of base 64; one is left, with two zero bits after it.
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(base64 "")
  foreach(i RANGE 0 60 3)
    string(SUBSTRING ${hex} ${i} 3 three)
    math(EXPR high "0x${three} / 64")
    math(EXPR low "0x${three} % 64")
    string(SUBSTRING ${digits} ${high} 1 high)
    string(SUBSTRING ${digits} ${low} 1 low)
    string(APPEND base64 ${high}${low})
  endforeach()
  string(SUBSTRING ${hex} 63 1 last)
  math(EXPR last "0x${last} * 4")
  string(SUBSTRING ${digits} ${last} 1 last)
  set(${variable} "${base64}${last}=" PARENT_SCOPE)
endfunction()

hash_of(script script)
hash_of(style style)
file(READ "${FROM}" hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
file(WRITE "${TO}" "/* Made by cmake/page.cmake. */
#include \"page.h\"

const unsigned char page_html[] = { ${bytes} };
const size_t page_size = sizeof page_html;
const char page_policy[] = \"default-src 'none'; script-src 'sha256-${script}'; style-src 'sha256-${style}'; \"
                           \"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \"
                           \"frame-ancestors 'none'\";
")
