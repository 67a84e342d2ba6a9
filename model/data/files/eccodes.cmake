# GRIB, if ecCodes is installed; Debian's CMake and pkg-config files name wrong folders.
find_path(ECCODES_INCLUDE eccodes.h)
find_library(ECCODES_LIBRARY eccodes)
if(ECCODES_INCLUDE AND ECCODES_LIBRARY)
  target_include_directories(isobar_model_data SYSTEM PUBLIC ${ECCODES_INCLUDE})
  target_link_libraries(isobar_model_data PUBLIC ${ECCODES_LIBRARY})
  target_compile_definitions(isobar_model_data PUBLIC ISOBAR_WITH_ECCODES)
endif()
