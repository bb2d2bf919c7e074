# Writes text files into a C++ source as constants, one a file:
#   cmake -DOUTPUT=page.cc -DFILES="page.html,page.css" -P EmbedText.cmake
# defines orrery::embedded::page_html and page_css as std::string_view.

set(text "// Written by cmake/EmbedText.cmake.\n#include <string_view>\n\nnamespace orrery::embedded {\n")
string(REPLACE "," ";" files "${FILES}")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  string(REPLACE "." "_" name ${name})
  file(READ ${file} content)
  string(APPEND text "\nextern const std::string_view ${name};\n"
    "const std::string_view ${name} = R\"embedded(${content})embedded\";\n")
endforeach()
string(APPEND text "\n}  // namespace orrery::embedded\n")
file(WRITE ${OUTPUT} "${text}")
