# Installation of the command, and of the files that it reads.
# The folders of libraries are those of an installation from the start: CMake would rewrite them there, and makes room for
# that by an empty part at their end, by which the loader takes libraries from the working directory.
set_target_properties(isobar isobar_library PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
# The command with what it looks for beside itself (base/program_files.cpp). A build elsewhere than in a folder of the
# source tree has that tree under the name that an installed one has.
cmake_path(GET CMAKE_BINARY_DIR PARENT_PATH _above_build)
if(NOT _above_build STREQUAL CMAKE_SOURCE_DIR AND NOT EXISTS ${CMAKE_BINARY_DIR}/share/isobar)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/share/isobar SYMBOLIC)
endif()
install(TARGETS isobar RUNTIME COMPONENT command)
install(DIRECTORY configs DESTINATION share/isobar COMPONENT command)
install(FILES reports/render.py DESTINATION share/isobar/reports COMPONENT command)
install(DIRECTORY reports/scripts DESTINATION share/isobar/reports COMPONENT command)
install(DIRECTORY reports/figures/specs DESTINATION share/isobar/reports/figures COMPONENT command)
install(FILES bench/import/torch_graph.py bench/import/torch_parts.py bench/import/torch_record.py DESTINATION share/isobar/bench/import COMPONENT command)
