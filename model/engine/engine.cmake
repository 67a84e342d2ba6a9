# The engine records the commit, which is written anew at every build.
add_custom_target(isobar_version BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/isobar_version.h
                  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DTYPE=${CMAKE_BUILD_TYPE}
                          -DOUT=${CMAKE_BINARY_DIR}/generated/isobar_version.h -P ${CMAKE_CURRENT_LIST_DIR}/version.cmake)
add_dependencies(isobar_model_engine isobar_version)
target_include_directories(isobar_model_engine PRIVATE ${CMAKE_BINARY_DIR}/generated)
# Outside of unity builds: a test program links the rest of this library with its own processor.
set_source_files_properties(model/engine/processor.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
